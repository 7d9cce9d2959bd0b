// The domain that is kept free for the first gang that waits. Other gangs are placed outside it, so it drains. Only one
// domain is kept free, so the rest of the cluster stays in use.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/clock.h"
#include "operator/placement/cluster_view.h"

namespace lockstep::placement {

// A domain of the tree (the root too) or one node.
struct HeldDomain {
  DomainId domain = kNone;
  NodeId node = kNone;  // kNone: all nodes of `domain`

  bool operator==(const HeldDomain&) const = default;
};

// The domain that is kept free, and for whom.
struct Hold {
  std::string key;  // of the gang
  HeldDomain domain;
  std::vector<NodeId> nodes;  // of the domain
  MonotonicTime until{};      // then it is chosen again
};

// Its nodes, in the order of their ids. Empty when it has left the tree.
std::vector<NodeId> nodes_of(const Tree& tree, const HeldDomain& held);
// "rack r1", "node n1" or "the cluster".
std::string name_of(const Tree& tree, const HeldDomain& held);

// Pods that have no room yet.
struct Need {
  ShapeId shape = 0;
  int pods = 0;  // beside the survivors
  std::optional<int> required{};
  bool exclusive = false;
  std::vector<std::pair<NodeId, int>> survivors{};
  std::vector<NodeId> closed{};  // where none may go
};

// A domain in which `need` would fit if only the survivors were there. It is of the innermost level that has one; of
// those it has the most room, then the lowest id. Empty: none is large enough.
std::optional<HeldDomain> domain_to_hold(ClusterView& cluster, const Need& need);

// The most pods that one domain of the level has room for; without a level: the whole cluster.
int largest_hole(ClusterView& cluster, ShapeId shape, std::optional<int> level);

}  // namespace lockstep::placement
