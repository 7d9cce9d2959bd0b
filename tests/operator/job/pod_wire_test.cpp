// What the controller and placement read of a pod is the same in JSON and in protobuf.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/api/pod.h"
#include "operator/kube/json_text.h"
#include "operator/kube/wire_messages.h"
#include "operator/placement/pod_scan.h"
#include "tests/operator/kube/wire_encoder.h"

namespace lockstep::job {
namespace {

// Each field that is read, and no other: the encoder refuses one that no table has.
const nlohmann::json kPod = nlohmann::json::parse(R"({
  "metadata": {"name": "job-0", "namespace": "ns", "uid": "01234567-89ab-cdef-0123-456789abcdef",
    "resourceVersion": "17", "generation": 3,
    "labels": {"lockstep.dev/job": "job", "lockstep.dev/job-uid": "f", "lockstep.dev/slot": "4",
      "lockstep.dev/incarnation": "7"},
    "annotations": {"lockstep.dev/node": "reserved"},
    "creationTimestamp": "2026-11-28T12:00:00Z", "deletionTimestamp": "2026-11-28T13:00:00Z",
    "ownerReferences": [{"uid": "w", "controller": true}]},
  "spec": {"nodeName": "node-1", "priority": 9, "hostNetwork": true, "schedulingGates": [{"name": "lockstep.dev/placement"}],
    "overhead": {"cpu": "250m"},
    "resources": {"requests": {"cpu": "3"}, "limits": {"memory": "2Gi"}},
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
    "containers": [{"name": "trainer", "ports": [{"hostPort": 80}],
      "resources": {"requests": {"cpu": "2"}, "limits": {"nvidia.com/gpu": "8"}}}],
    "initContainers": [{"name": "agent", "restartPolicy": "Always", "ports": [{"hostPort": 81}],
      "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}}]},
  "status": {"phase": "Failed", "reason": "Evicted", "message": "disk", "podIP": "10.0.0.1",
    "startTime": "2026-11-28T12:00:02Z",
    "conditions": [{"type": "Ready", "status": "True"},
      {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-28T12:00:01Z"},
      {"type": "DisruptionTarget", "status": "True", "reason": "d", "message": "drained"}],
    "initContainerStatuses": [{"name": "agent", "ready": true, "state": {"running": {}},
      "resources": {"requests": {"memory": "2Gi"}}, "allocatedResources": {"memory": "3Gi"}}],
    "containerStatuses": [{"name": "trainer", "restartCount": 2,
      "resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "5"},
      "allocatedResourcesStatus": [{"name": "gpu", "resources": [{"resourceID": "0", "health": "Unhealthy"}]}],
      "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "tail"}}},
      {"name": "other", "state": {"waiting": {"reason": "r", "message": "m"}}}]}})");

std::string in_protobuf(const JsonPaths& fields) {
  const auto& message = *kube::message_of(kube::kPods);
  return kube::wire_text(kube::testing::enveloped(kube::testing::encoded(kPod, message)), message, &fields)
      .value_or("");
}

TEST(PodWire, the_controller_reads_the_same_pod) {
  const auto wanted = api::parse_pod(kPod);
  const auto read = api::parse_pod(kube::parse_object(in_protobuf(api::pod_fields()), &api::pod_fields()));
  ASSERT_TRUE(wanted && read);
  EXPECT_TRUE(*read == *wanted);
  EXPECT_EQ(read->containers.size(), 3U);
  EXPECT_EQ(read->unhealthy_device, "gpu 0");
}

TEST(PodWire, placement_reads_the_same_pod) {
  const auto wanted = placement::scan_pod(kPod.dump());
  const auto read = placement::scan_pod(in_protobuf(placement::scanned_pod_fields()));
  ASSERT_TRUE(wanted && read);
  EXPECT_EQ(std::tie(read->name_space, read->name, read->uid, read->job, read->node, read->priority, read->slot),
            std::tie(wanted->name_space, wanted->name, wanted->uid, wanted->job, wanted->node, wanted->priority,
                     wanted->slot));
  EXPECT_EQ(std::tie(read->started, read->flags, read->terminal),
            std::tie(wanted->started, wanted->flags, wanted->terminal));
  EXPECT_EQ(read->requests, wanted->requests);
  EXPECT_NE(read->started, 0U);
  EXPECT_EQ(read->requests.size(), 4U) << "cpu, memory, nvidia.com/gpu and pods";
}

TEST(PodWire, both_readers_get_the_version_of_the_pod) {
  for (const JsonPaths* fields : {&api::pod_fields(), &placement::scanned_pod_fields()}) {
    EXPECT_EQ(kube::text_at(kube::parse_object(in_protobuf(*fields)), {"metadata", "resourceVersion"}), "17");
  }
}

}  // namespace
}  // namespace lockstep::job
