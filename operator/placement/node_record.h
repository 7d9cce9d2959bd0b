// What the cluster cache is told of a node: trimmed to what decides how many pods fit on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/placement/effective_requests.h"

namespace lockstep::placement {

struct Taint {
  std::string key, value, effect;

  auto operator<=>(const Taint&) const = default;
};

struct NodeRecord {
  std::string name;
  api::Labels labels;               // those that the scan was asked for
  std::vector<Amount> allocatable;  // ordered by name; kPods among them
  std::vector<Taint> taints;        // of effect NoSchedule or NoExecute, in order
  bool ready = false;               // condition Ready is "True"
  bool unschedulable = false;       // cordoned
  bool out_of_service = false;      // taint node.kubernetes.io/out-of-service
  std::string sickness;             // the sign that it is sick, as text_of(Sign) says it; "": none
};

// Whether a node takes new pods. Of several reasons against it, the last of these.
enum class NodeState : std::uint8_t { kUsable, kCordoned, kSick, kNotReady, kOutOfService };

inline NodeState state_of(const NodeRecord& node) {
  if (node.out_of_service) return NodeState::kOutOfService;
  if (!node.ready) return NodeState::kNotReady;
  if (!node.sickness.empty()) return NodeState::kSick;
  return node.unschedulable ? NodeState::kCordoned : NodeState::kUsable;
}

}  // namespace lockstep::placement
