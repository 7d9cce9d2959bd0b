// The opposite of packing, for pods that ask for so little that packing would pile them up on one node. Each goes, one
// after the other, to the node with the fewest pods of its gang; of those, to the one with the most room left; then to
// the first by name. Exact: no other placement has a lower sorted list of pods per node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "operator/placement/tree.h"

namespace lockstep::placement {

// Nodes for `pods` pods, in depth-first order; empty when they do not fit. With a `required` level (levels(): one node)
// they and the survivors lie in one domain of it. It is the one whose fullest node gets the fewest pods, then the one
// with the most room. `room` is by NodeId; survivors are not in it. O(nodes · log pods).
std::optional<std::vector<std::pair<NodeId, int>>> spread(const Tree& tree, std::span<const std::int32_t> room,
                                                          int pods, std::optional<int> required,
                                                          const std::vector<std::pair<NodeId, int>>& survivors);

}  // namespace lockstep::placement
