// The steps of one decision: which domains come into question, the best of them, and who gets which pods (place.h).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "operator/placement/view.h"

namespace lockstep::placement {

using NodePods = std::vector<std::pair<NodeId, int>>;

// Where the pods of a request may go. Levels as in Request.
struct Reach {
  std::optional<int> required;
  DomainId around = kRoot;     // the innermost domain that has all survivors; the root where there are none
  NodeId around_node = kNone;  // the node that has all survivors, if one has
  bool survivors = false;
};

// A domain, or a node, that has room for all pods.
struct Candidate {
  std::int32_t id = kNone;  // DomainId; NodeId at the level of nodes
  const Subtree* subtree = nullptr;
  Cost above = 0;  // what the domains above it cost
};

struct Choice {
  NodePods nodes;  // in depth-first order
  bool approximate = false;
};

// The domains of `level` that hold `pods` pods and all survivors, within one domain of the required level, in
// depth-first order. levels() asks for nodes.
std::vector<Candidate> candidates(View& view, const Reach& reach, int level, int pods);

// The best way to place `pods` pods into one of the candidates; there is at least one. Of equal costs, the first
// candidate wins, and in it the child that comes first by name takes the most.
//
// Branch and bound: candidates are evaluated by their lower bounds, lowest first, until no bound is below the best
// cost. `budget` bounds the additions that this takes from nothing. Beyond it the choice is approximate: the best
// candidate that was evaluated, or, where not even one was, the most promising one, filled greedily.
Choice choose(View& view, const std::vector<Candidate>& candidates, int level, int pods, std::int64_t budget);

// The cost of an assignment by definition, and nothing else: no table is used.
Cost cost_of(View& view, const NodePods& nodes);

}  // namespace lockstep::placement
