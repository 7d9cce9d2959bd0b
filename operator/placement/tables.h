// The tables of the dynamic programme for pods of one shape, kept from one decision to the next. An event makes the
// subtrees above its node unknown, and the next decision computes those alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "operator/placement/room.h"
#include "operator/placement/subtree.h"
#include "operator/placement/tree.h"

namespace lockstep::placement {

// Belongs to one Tree and one shape of pod; the owner keeps both. A Tables that was never used, or was used with other
// prices, starts from nothing. Results do not depend on what was asked before. Not thread-safe.
class Tables {
 public:
  // Takes over which nodes there are and what they have. kInvalid for numbers that contradict Room or exceed
  // prices.node_pods(), for a span that is shorter than tree.node_limit(), and for too many nodes. Then the tables keep
  // what they had. O(nodes) to find what changed, by comparison.
  Status follow(const Tree& tree, const Rooms& rooms, const Prices& prices);

  // One such change by itself, after a follow(): O(depth) at most, amortised O(1) between two decisions.
  void set(const Tree& tree, NodeId node, const Room& room);

  // The subtree of a domain or of a node, by the last follow() and what set() changed. Valid until the next of them.
  const SubtreePtr& of(const Tree& tree, DomainId domain);
  const SubtreePtr& of_node(NodeId node);
  Room room(NodeId node) const;

  // follow() was called.
  Subtrees& subtrees() { return *subtrees_; }

 private:
  struct Entry {
    std::uint64_t version = 0;  // of the domain, when the subtree was made
    SubtreePtr subtree;         // null: unknown, and so are those of the domains above
  };

  // Of all children of a domain.
  struct Sums {
    std::int64_t young = 0, whole = 0;
  };

  const SubtreePtr& leaf(std::int32_t capacity);
  // The children that have room; `sums` counts all.
  std::vector<Group> groups_of_nodes(const Tree& tree, DomainId domain, Sums& sums);
  std::vector<Group> groups_of_domains(const Tree& tree, DomainId domain, Sums& sums);

  std::optional<Subtrees> subtrees_;
  std::vector<Room> rooms_;         // by NodeId
  std::vector<Entry> entries_;      // by DomainId
  std::vector<SubtreePtr> leaves_;  // by capacity
  std::vector<int> counts_;         // by capacity; all 0 between two calls
};

// Equal subtrees in one group, in the order of their first ones.
std::vector<Group> grouped(std::span<const SubtreePtr> children);

}  // namespace lockstep::placement
