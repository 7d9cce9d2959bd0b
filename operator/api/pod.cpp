#include "operator/api/pod.h"

#include "operator/api/reader.h"

namespace lockstep::api {
namespace {

void read_containers(const Reader& status, const char* key, bool is_init, std::vector<ContainerState>& out) {
  for (const Reader& item : status.children(key)) {
    ContainerState& container = out.emplace_back();
    container.is_init = is_init;
    item.read("name", container.name);
    item.read("ready", container.ready);
    item.read("restartCount", container.restart_count);
    const Reader state = item.child("state");
    const Reader waiting = state.child("waiting");
    waiting.read("reason", container.waiting_reason);
    waiting.read("message", container.waiting_message);
    container.running = state.has("running");
    container.terminated = state.has("terminated");
    const Reader terminated = state.child("terminated");
    terminated.read("exitCode", container.exit_code);
    terminated.read("signal", container.signal);
    terminated.read("reason", container.terminated_reason);
    terminated.read("message", container.terminated_message);
  }
}

// The kubelet says of each device whether its plugin calls it healthy; the first that is not is enough.
void read_devices(const Reader& container, Pod& pod) {
  constexpr size_t kMost = 200;
  for (const Reader& resource : container.children("allocatedResourcesStatus")) {
    for (const Reader& device : resource.children("resources")) {
      std::string name, id, health;
      device.read("health", health);
      if (health != "Unhealthy" || !pod.unhealthy_device.empty()) continue;
      resource.read("name", name);
      device.read("resourceID", id);
      pod.unhealthy_device = (name + " " + id).substr(0, kMost);
    }
  }
}

void read_conditions(const Reader& status, Pod& pod) {
  for (const Reader& item : status.children("conditions")) {
    std::string type, value;
    item.read("type", type);
    item.read("status", value);
    if (type == "Ready") {
      pod.ready = value == "True";
    } else if (type == "PodScheduled") {
      pod.scheduled = value == "True";
      if (pod.scheduled) {
        item.read("lastTransitionTime", pod.scheduled_at);
        continue;
      }
      item.read("reason", pod.unschedulable_reason);
      item.read("message", pod.unschedulable_message);
    } else if (type == "DisruptionTarget" && value == "True") {
      item.read("reason", pod.disruption_reason);
      item.read("message", pod.disruption_message);
    }
  }
}

}  // namespace

bool Pod::refused() const {
  if (phase != "Failed" || !disruption_reason.empty()) return false;
  for (const ContainerState& container : containers) {
    if (container.running || container.terminated) return false;
  }
  return true;
}

Result<Pod> parse_pod(const Json& object) {
  std::optional<Error> error;
  const Reader root(object, "", error);
  if (error) return *error;
  Pod pod;
  LOCKSTEP_TRY(pod.meta, parse_meta(object));
  const Reader spec = root.child("spec");
  spec.read("nodeName", pod.node_name);
  for (const Reader& gate : spec.children("schedulingGates")) gate.read("name", pod.gates.emplace_back());
  if (const auto node = pod.meta.annotations.find(kAnnotationNode); node != pod.meta.annotations.end()) {
    pod.reserved_node = node->second;
  }
  pod.has_node_affinity =
      spec.child("affinity").child("nodeAffinity").has("requiredDuringSchedulingIgnoredDuringExecution");
  const Reader status = root.child("status");
  status.read("phase", pod.phase);
  status.read("reason", pod.reason);
  status.read("message", pod.message);
  status.read("podIP", pod.pod_ip);
  read_containers(status, "initContainerStatuses", true, pod.containers);
  read_containers(status, "containerStatuses", false, pod.containers);
  for (const Reader& container : status.children("containerStatuses")) read_devices(container, pod);
  read_conditions(status, pod);
  if (error) return *error;
  return pod;
}

const JsonPaths& pod_fields() {
  static const JsonPaths fields{
      {"metadata|name"},
      {"metadata|namespace"},
      {"metadata|uid"},
      {"metadata|resourceVersion"},
      {"metadata|generation"},
      {"metadata|labels|lockstep.dev/job"},
      {"metadata|labels|lockstep.dev/job-uid"},
      {"metadata|labels|lockstep.dev/slot"},
      {"metadata|labels|lockstep.dev/incarnation"},
      {"metadata|annotations|lockstep.dev/node"},
      {"metadata|creationTimestamp"},
      {"metadata|deletionTimestamp"},
      {"metadata|ownerReferences|[]|uid"},
      {"metadata|ownerReferences|[]|controller"},
      {"spec|nodeName"},
      {"spec|schedulingGates"},
      {"spec|affinity|nodeAffinity|requiredDuringSchedulingIgnoredDuringExecution"},
      {"status|phase"},
      {"status|reason"},
      {"status|message"},
      {"status|podIP"},
      {"status|conditions"},
      {"status|initContainerStatuses"},
      {"status|containerStatuses"},
  };
  return fields;
}

Result<Node> parse_node(const Json& object) {
  std::optional<Error> error;
  const Reader root(object, "", error);
  if (error) return *error;
  Node node;
  LOCKSTEP_TRY(node.meta, parse_meta(object));
  const Reader spec = root.child("spec");
  spec.read("unschedulable", node.unschedulable);
  for (const Reader& taint : spec.children("taints")) {
    std::string key;
    taint.read("key", key);
    if (key == "node.kubernetes.io/out-of-service") node.out_of_service = true;
  }
  for (const Reader& item : root.child("status").children("conditions")) {
    std::string type, value;
    item.read("type", type);
    if (type != "Ready") continue;
    item.read("status", value);
    node.ready = value == "True";
    if (node.ready) {
      item.read("lastTransitionTime", node.ready_since);
    } else {
      item.read("reason", node.not_ready_reason);
    }
  }
  if (error) return *error;
  return node;
}

}  // namespace lockstep::api
