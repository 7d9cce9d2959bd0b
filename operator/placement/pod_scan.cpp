#include "operator/placement/pod_scan.h"

#include <algorithm>
#include <utility>

#include "operator/api/object.h"
#include "operator/base/number.h"
#include "operator/base/timestamp.h"
#include "operator/placement/json_walk.h"

namespace lockstep::placement {
namespace {

enum PodField {
  kNamespace,
  kPodName,
  kUid,
  kResourceVersion,  // a reflector reads it
  kDeleted,
  kJob,
  kSlot,
  kAnnotatedNode,
  kNodeName,
  kPriority,
  kGateName,
  kOverhead,
  kPodRequests,
  kPodLimits,
  kHostNetwork,
  kPhase,
  kStartTime,
  kConditions,
  kCondition,
  kConditionType,
  kConditionReason,
  // Of containers, init containers and sidecars.
  kContainers,
  kContainer,
  kContainerName,
  kContainerRequests,
  kContainerLimits,
  kContainerPort,
  kContainerHostPort,
  kRestartPolicy,
  kInitContainers,
  kInitContainer,
  // Of statuses.
  kStatus,
  kStatusName,
  kStatusResources,
  kStatusRequests,
  kStatusAllocated,
};

std::int32_t whole(std::string_view text, std::int32_t otherwise) {
  return as_number<std::int32_t>(text).value_or(otherwise);
}

// 0 where it is no time, or one that a record cannot hold.
std::uint32_t seconds_of(std::string_view timestamp) {
  const auto time = parse_timestamp(timestamp);
  if (!time) return 0;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(*time).time_since_epoch().count();
  return std::in_range<std::uint32_t>(seconds) ? static_cast<std::uint32_t>(seconds) : 0;
}

class PodVisitor final : public JsonVisitor {
 public:
  void begin(int id) override {
    switch (id) {
      case kContainers:
        list_ = &requests_.containers;
        list_->clear();
        break;
      case kInitContainers:
        list_ = &requests_.init_containers;
        list_->clear();
        break;
      case kContainer:
      case kInitContainer:
        if (list_ != nullptr && may_add(list_->size())) list_->emplace_back();
        break;
      case kContainerPort:
        ports_ = true;
        break;
      case kConditions:
        requests_.resize_infeasible = false;
        break;
      case kCondition:
        condition_ = reason_ = "";
        break;
      case kStatus:
        if (may_add(requests_.statuses.size())) requests_.statuses.emplace_back();
        break;
      case kStatusResources:
        if (auto* status = last(requests_.statuses)) status->has_resources = true;
        break;
      default:
        break;
    }
  }

  void value(int id, std::string_view key, std::string_view text) override {
    switch (id) {
      case kNamespace:
        pod_.name_space = text;
        break;
      case kPodName:
        pod_.name = text;
        break;
      case kUid:
        pod_.uid = text.empty() ? Uid() : Uid::of(text);
        break;
      case kDeleted:
        if (!text.empty()) pod_.flags |= kTerminating;
        break;
      case kJob:
        pod_.job = text.empty() ? Uid() : Uid::of(text);
        break;
      case kSlot:
        pod_.slot = whole(text, -1);
        break;
      case kAnnotatedNode:
        annotated_ = text;
        break;
      case kNodeName:
        pod_.node = text;
        break;
      case kGateName:
        if (text == api::kPlacementGate) pod_.flags |= kGated;
        break;
      case kPriority:
        pod_.priority = whole(text, 0);
        break;
      case kOverhead:
        set(requests_.overhead, key, text);
        break;
      case kPodRequests:
        set(requests_.pod_requests, key, text);
        break;
      case kPodLimits:
        set(requests_.pod_limits, key, text);
        break;
      case kHostNetwork:
        host_network_ = text == "true";
        break;
      case kPhase:
        pod_.terminal = text == "Succeeded" || text == "Failed";
        break;
      case kStartTime:
        pod_.started = seconds_of(text);
        break;
      case kConditionType:
        condition_ = text;
        judge_resize();
        break;
      case kConditionReason:
        reason_ = text;
        judge_resize();
        break;
      case kContainerHostPort:
        if (whole(text, 1) != 0) pod_.flags |= kHostPorts;
        break;
      default:
        if (list_ != nullptr) of_container(id, key, text);
        of_status(id, key, text);
        break;
    }
  }

  Result<ScannedPod> finish() {
    if (pod_.uid.is_zero()) return fail(ErrorCode::kInvalid, "the pod has no metadata.uid");
    if (!problem_.empty()) return fail(ErrorCode::kInvalid, problem_);
    if (pod_.job.is_zero()) pod_.slot = -1;
    if (!pod_.node.empty()) {
      pod_.flags |= kBound;
    } else if (!pod_.job.is_zero()) {
      pod_.node = annotated_;
    }
    if (host_network_ && ports_) pod_.flags |= kHostPorts;  // the API server makes host ports of them
    pod_.requests = effective_requests(std::move(requests_));
    const auto pods = std::lower_bound(pod_.requests.begin(), pod_.requests.end(), kPods,
                                       [](const Amount& amount, std::string_view name) { return amount.name < name; });
    if (pods != pod_.requests.end() && pods->name == kPods) {
      pods->units = 1;
    } else {
      pod_.requests.insert(pods, {std::string(kPods), 1});
    }
    return std::move(pod_);
  }

 private:
  void of_container(int id, std::string_view key, std::string_view text) {
    ContainerRequests* container = last(*list_);
    if (container == nullptr) return;
    if (id == kContainerName) container->name = text;
    if (id == kRestartPolicy) container->restartable = text == "Always";
    if (id == kContainerRequests) set(container->requests, key, text);
    if (id == kContainerLimits) set(container->limits, key, text);
  }
  void of_status(int id, std::string_view key, std::string_view text) {
    ContainerAllocation* status = last(requests_.statuses);
    if (status == nullptr) return;
    if (id == kStatusName) status->name = text;
    if (id == kStatusRequests) set(status->requests, key, text);
    if (id == kStatusAllocated) set(status->allocated, key, text);
  }
  void judge_resize() {
    if (condition_ == "PodResizePending" && reason_ == "Infeasible") requests_.resize_infeasible = true;
  }
  template <typename T>
  static T* last(std::vector<T>& all) {
    return all.empty() ? nullptr : &all.back();
  }
  bool may_add(std::size_t count) {
    if (count < kMostContainers) return true;
    problem_ = "the pod has more than 1024 containers";
    return false;
  }
  void set(ResourceList& list, std::string_view name, std::string_view text) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
      if (names_.size() == kMostResources) {
        problem_ = "the pod names more than 64 resources";
        return;
      }
      names_.emplace_back(name);
    }
    list.set(name, read_amount(text));
  }

  ScannedPod pod_;
  PodRequests requests_;
  std::vector<ContainerRequests>* list_ = nullptr;  // the one being read
  std::vector<std::string> names_;                  // of all resources
  std::string annotated_, condition_, reason_, problem_;
  bool host_network_ = false, ports_ = false;
};

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// FNV-1a, of 64 bits.
std::uint64_t hashed(std::string_view text, std::uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace

Uid Uid::of(std::string_view text) {
  Uid uid;
  bool is_uuid = text.size() == 36;
  std::size_t digits = 0;
  for (std::size_t i = 0; is_uuid && i < text.size(); ++i) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      is_uuid = text[i] == '-';
      continue;
    }
    const int digit = hex(text[i]);
    is_uuid = digit >= 0;
    auto& byte = uid.bytes[digits++ / 2];
    byte = static_cast<std::uint8_t>(byte << 4U | (is_uuid ? static_cast<unsigned>(digit) : 0U));
  }
  if (is_uuid) return uid;
  const std::uint64_t halves[2] = {hashed(text, 0xcbf29ce484222325U), hashed(text, 0x84222325cbf29ce4U) | 1U};
  std::memcpy(uid.bytes.data(), halves, sizeof halves);
  return uid;
}

const JsonPaths& scanned_pod_fields() {
  static const JsonPaths paths{
      {"metadata|namespace", kNamespace},
      {"metadata|name", kPodName},
      {"metadata|uid", kUid},
      {"metadata|resourceVersion", kResourceVersion},
      {"metadata|deletionTimestamp", kDeleted},
      {"metadata|labels|lockstep.dev/job-uid", kJob},
      {"metadata|labels|lockstep.dev/slot", kSlot},
      {"metadata|annotations|lockstep.dev/node", kAnnotatedNode},
      {"spec|nodeName", kNodeName},
      {"spec|priority", kPriority},
      {"spec|schedulingGates|[]|name", kGateName},
      {"spec|overhead|*", kOverhead},
      {"spec|resources|requests|*", kPodRequests},
      {"spec|resources|limits|*", kPodLimits},
      {"spec|hostNetwork", kHostNetwork},
      {"spec|containers", kContainers},
      {"spec|containers|[]", kContainer},
      {"spec|containers|[]|name", kContainerName},
      {"spec|containers|[]|resources|requests|*", kContainerRequests},
      {"spec|containers|[]|resources|limits|*", kContainerLimits},
      {"spec|containers|[]|ports|[]", kContainerPort},
      {"spec|containers|[]|ports|[]|hostPort", kContainerHostPort},
      {"spec|initContainers", kInitContainers},
      {"spec|initContainers|[]", kInitContainer},
      {"spec|initContainers|[]|name", kContainerName},
      {"spec|initContainers|[]|restartPolicy", kRestartPolicy},
      {"spec|initContainers|[]|resources|requests|*", kContainerRequests},
      {"spec|initContainers|[]|resources|limits|*", kContainerLimits},
      {"spec|initContainers|[]|ports|[]", kContainerPort},
      {"spec|initContainers|[]|ports|[]|hostPort", kContainerHostPort},
      {"status|phase", kPhase},
      {"status|startTime", kStartTime},
      {"status|conditions", kConditions},
      {"status|conditions|[]", kCondition},
      {"status|conditions|[]|type", kConditionType},
      {"status|conditions|[]|reason", kConditionReason},
      {"status|containerStatuses|[]", kStatus},
      {"status|containerStatuses|[]|name", kStatusName},
      {"status|containerStatuses|[]|resources", kStatusResources},
      {"status|containerStatuses|[]|resources|requests|*", kStatusRequests},
      {"status|containerStatuses|[]|allocatedResources|*", kStatusAllocated},
      {"status|initContainerStatuses|[]", kStatus},
      {"status|initContainerStatuses|[]|name", kStatusName},
      {"status|initContainerStatuses|[]|resources", kStatusResources},
      {"status|initContainerStatuses|[]|resources|requests|*", kStatusRequests},
      {"status|initContainerStatuses|[]|allocatedResources|*", kStatusAllocated},
  };
  return paths;
}

Result<ScannedPod> scan_pod(std::string_view text) {
  PodVisitor visitor;
  if (!walk_json(text, scanned_pod_fields(), visitor)) return fail(ErrorCode::kInvalid, "the pod is not JSON");
  return visitor.finish();
}

}  // namespace lockstep::placement
