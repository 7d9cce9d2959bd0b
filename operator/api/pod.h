// The fields of a Pod that Lockstep reads; so a cache of thousands stays small.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/base/json_paths.h"

namespace lockstep::api {

struct ContainerState {
  std::string name;
  bool is_init = false;
  bool ready = false;
  std::int32_t restart_count = 0;
  std::string waiting_reason;  // "ImagePullBackOff"; empty if it does not wait
  std::string waiting_message;
  bool running = false;
  bool terminated = false;
  std::int32_t exit_code = 0;  // these four once terminated
  std::int32_t signal = 0;
  std::string terminated_reason;  // "OOMKilled", "Error", "Completed"
  std::string terminated_message;

  bool out_of_memory() const { return terminated_reason == "OOMKilled"; }
  bool operator==(const ContainerState&) const = default;
};

struct Pod {
  ObjectMeta meta;
  std::string phase;  // Pending, Running, Succeeded, Failed, Unknown
  std::string reason;
  std::string message;
  std::string node_name;
  std::vector<std::string>
      gates;                  // names of spec.schedulingGates: kube-scheduler leaves the pod alone while there are any
  std::string reserved_node;  // annotation lockstep.dev/node: the node that placement gave to it
  bool has_node_affinity = false;  // required node affinity, of the pod template or for reserved_node
  std::string pod_ip;
  std::vector<ContainerState> containers;  // init containers too
  // Of the conditions PodScheduled and DisruptionTarget, if present.
  bool scheduled = false;
  std::optional<WallTime> scheduled_at;
  std::string unschedulable_reason, unschedulable_message;
  std::string disruption_reason, disruption_message;
  bool ready = false;
  // A device of a container that its plugin calls Unhealthy: "nvidia.com/gpu GPU-0123"; "": none.
  std::string unhealthy_device;

  bool terminal() const { return phase == "Succeeded" || phase == "Failed"; }
  // The kubelet of its node did not admit it: no container of it was ever started.
  bool refused() const;
  bool operator==(const Pod&) const = default;
};

// Reads a pod. The pods of a cluster come with pod_fields() alone. That table holds what is read here, and each label
// that is read of a Pod.
Result<Pod> parse_pod(const Json& object);

// What is read of a pod: a third of its text, with few of its labels and annotations.
const JsonPaths& pod_fields();

// The fields of a Node that Lockstep reads.
struct Node {
  ObjectMeta meta;
  bool ready = true;             // condition Ready is "True"
  std::string not_ready_reason;  // "NodeStatusUnknown", "KubeletNotReady", ...
  std::optional<WallTime> ready_since;
  bool unschedulable = false;
  bool out_of_service = false;  // taint node.kubernetes.io/out-of-service
  // The sign that it is sick, "condition:XIDErrors=True"; "": none. parse_node() does not know the signs.
  std::string sickness;
  // The sign, in the same form, that it counts as lost. parse_node() does not know these either.
  std::string death;
  // Its domains, outermost first, by the operator's profile, which parse_node() does not know.
  std::vector<std::string> path;
};

Result<Node> parse_node(const Json& object);

}  // namespace lockstep::api
