#include "operator/kube/wire_messages.h"

namespace lockstep::kube {
namespace {

using Kind = WireField::Kind;

constexpr WireField kOwnerFields[]{
    {1, "kind"}, {3, "name"}, {4, "uid"}, {5, "apiVersion"}, {6, "controller", Kind::kTruth},
};
constexpr WireMessage kOwner{kOwnerFields};

constexpr WireField kMetaFields[]{
    {1, "name"},
    {3, "namespace"},
    {5, "uid"},
    {6, "resourceVersion"},
    {7, "generation", Kind::kNumber},
    {8, "creationTimestamp", Kind::kTime},
    {9, "deletionTimestamp", Kind::kTime},
    {11, "labels", Kind::kTextMap},
    {12, "annotations", Kind::kTextMap},
    {13, "ownerReferences", Kind::kMessage, &kOwner, true},
};
constexpr WireMessage kMeta{kMetaFields};

constexpr WireField kOnlyMetaFields[]{{1, "metadata", Kind::kMessage, &kMeta}};
constexpr WireMessage kOnlyMeta{kOnlyMetaFields};

constexpr WireField kListMetaFields[]{{2, "resourceVersion"}, {3, "continue"}};
constexpr WireMessage kListMeta{kListMetaFields};

constexpr WireField kCauseFields[]{{1, "reason"}, {2, "message"}, {3, "field"}};
constexpr WireMessage kCause{kCauseFields};

constexpr WireField kDetailsFields[]{
    {1, "name"},
    {3, "kind"},
    {4, "causes", Kind::kMessage, &kCause, true},
    {5, "retryAfterSeconds", Kind::kNumber},
};
constexpr WireMessage kDetails{kDetailsFields};

constexpr WireField kStatusFields[]{
    {2, "status"}, {3, "message"}, {4, "reason"}, {5, "details", Kind::kMessage, &kDetails}, {6, "code", Kind::kNumber},
};
constexpr WireMessage kStatus{kStatusFields};

// A message of which only its presence is read.
constexpr WireMessage kPresence{};

constexpr WireField kNodeAffinityFields[]{
    {1, "requiredDuringSchedulingIgnoredDuringExecution", Kind::kMessage, &kPresence},
};
constexpr WireMessage kNodeAffinity{kNodeAffinityFields};

constexpr WireField kAffinityFields[]{{1, "nodeAffinity", Kind::kMessage, &kNodeAffinity}};
constexpr WireMessage kAffinity{kAffinityFields};

constexpr WireField kResourcesFields[]{{1, "limits", Kind::kQuantityMap}, {2, "requests", Kind::kQuantityMap}};
constexpr WireMessage kResources{kResourcesFields};

constexpr WireField kPortFields[]{{2, "hostPort", Kind::kNumber}};
constexpr WireMessage kPort{kPortFields};

constexpr WireField kContainerFields[]{
    {1, "name"},
    {6, "ports", Kind::kMessage, &kPort, true},
    {8, "resources", Kind::kMessage, &kResources},
    {24, "restartPolicy"},
};
constexpr WireMessage kContainer{kContainerFields};

constexpr WireField kGateFields[]{{1, "name"}};
constexpr WireMessage kGate{kGateFields};

constexpr WireField kSpecFields[]{
    {2, "containers", Kind::kMessage, &kContainer, true},
    {10, "nodeName"},
    {11, "hostNetwork", Kind::kTruth},
    {18, "affinity", Kind::kMessage, &kAffinity},
    {20, "initContainers", Kind::kMessage, &kContainer, true},
    {25, "priority", Kind::kNumber},
    {32, "overhead", Kind::kQuantityMap},
    {38, "schedulingGates", Kind::kMessage, &kGate, true},
    {40, "resources", Kind::kMessage, &kResources},
};
constexpr WireMessage kSpec{kSpecFields};

constexpr WireField kWaitingFields[]{{1, "reason"}, {2, "message"}};
constexpr WireMessage kWaiting{kWaitingFields};

constexpr WireField kTerminatedFields[]{
    {1, "exitCode", Kind::kNumber},
    {2, "signal", Kind::kNumber},
    {3, "reason"},
    {4, "message"},
};
constexpr WireMessage kTerminated{kTerminatedFields};

constexpr WireField kStateFields[]{
    {1, "waiting", Kind::kMessage, &kWaiting},
    {2, "running", Kind::kMessage, &kPresence},
    {3, "terminated", Kind::kMessage, &kTerminated},
};
constexpr WireMessage kState{kStateFields};

constexpr WireField kDeviceFields[]{{1, "resourceID"}, {2, "health"}};
constexpr WireMessage kDevice{kDeviceFields};

constexpr WireField kDevicesFields[]{{1, "name"}, {2, "resources", Kind::kMessage, &kDevice, true}};
constexpr WireMessage kDevices{kDevicesFields};

constexpr WireField kContainerStatusFields[]{
    {1, "name"},
    {2, "state", Kind::kMessage, &kState},
    {4, "ready", Kind::kTruth},
    {5, "restartCount", Kind::kNumber},
    {10, "allocatedResources", Kind::kQuantityMap},
    {11, "resources", Kind::kMessage, &kResources},
    {14, "allocatedResourcesStatus", Kind::kMessage, &kDevices, true},
};
constexpr WireMessage kContainerStatus{kContainerStatusFields};

constexpr WireField kConditionFields[]{
    {1, "type"}, {2, "status"}, {4, "lastTransitionTime", Kind::kTime}, {5, "reason"}, {6, "message"},
};
constexpr WireMessage kCondition{kConditionFields};

constexpr WireField kPodStatusFields[]{
    {1, "phase"},
    {2, "conditions", Kind::kMessage, &kCondition, true},
    {3, "message"},
    {4, "reason"},
    {6, "podIP"},
    {7, "startTime", Kind::kTime},
    {8, "containerStatuses", Kind::kMessage, &kContainerStatus, true},
    {10, "initContainerStatuses", Kind::kMessage, &kContainerStatus, true},
};
constexpr WireMessage kPodStatus{kPodStatusFields};

constexpr WireField kPodFields[]{
    {1, "metadata", Kind::kMessage, &kMeta},
    {2, "spec", Kind::kMessage, &kSpec},
    {3, "status", Kind::kMessage, &kPodStatus},
};
constexpr WireMessage kPod{kPodFields};

}  // namespace

const WireMessage* message_of(const Resource& resource) {
  return resource == kPods ? &kPod : nullptr;
}

const WireMessage& status_message() {
  return kStatus;
}

const WireMessage& metadata_message() {
  return kOnlyMeta;
}

const WireMessage& list_metadata_message() {
  return kListMeta;
}

}  // namespace lockstep::kube
