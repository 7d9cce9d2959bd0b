// The subtrees that one decision sees: those of the tables. Nodes that the request treats differently (excluded ones,
// survivors, pods of a gang that shrinks), and the domains above them, have others.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "operator/placement/tables.h"

namespace lockstep::placement {

// Made for one decision. Marks come before questions.
class View {
 public:
  // `marked_alone`: nodes that are not marked have no room, `free` of a mark adds to what its domains have free, and
  // young pods do not count.
  View(const Tree& tree, Tables& tables, bool marked_alone) : tree_(tree), tables_(tables), alone_(marked_alone) {}

  const Tree& tree() const { return tree_; }
  Subtrees& subtrees() { return tables_.subtrees(); }

  // How many pods may go to the node, how large its hole is, and whether a survivor is there. Its young pods no longer
  // count: they are the gang's own, or it may not go there. A second mark of a node replaces the first.
  void mark(NodeId node, std::int64_t pods, std::int64_t free, bool covered);

  // Valid as long as the view is.
  const Subtree& of(DomainId domain);
  const Subtree& of_node(NodeId node);

 private:
  struct Mark {
    std::int64_t added = 0;  // what the marks below add to what is free
    std::int64_t young = 0;  // of the marked nodes
    bool covered = false;
    SubtreePtr subtree;
  };

  SubtreePtr pointer(DomainId domain);
  const SubtreePtr& pointer_of_node(NodeId node);

  const Tree& tree_;
  Tables& tables_;
  bool alone_;
  std::unordered_map<NodeId, SubtreePtr> nodes_;
  std::unordered_map<DomainId, Mark> domains_;
  SubtreePtr no_room_;
};

}  // namespace lockstep::placement
