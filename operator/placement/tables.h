// The tables of the dynamic programme for pods of one shape, kept from one decision to the next. An event makes the
// subtrees above its node unknown, and the next decision computes those alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "operator/placement/subtree.h"
#include "operator/placement/tree.h"

namespace lockstep::placement {

// Belongs to one Tree and one shape of pod; the owner keeps both. A Tables that was never used, or was used with other
// prices, starts from nothing. Results do not depend on what was asked before. Not thread-safe.
class Tables {
 public:
  // Takes over which nodes there are and, by NodeId, how many pods fit. `young`: how many more would fit without the
  // pods that began lately; empty where nobody knows. kInvalid for a capacity below 0 or above
  // prices.node_pods(), for both together as well, for a span shorter than tree.node_limit(), and for too many nodes;
  // the tables keep what they had. O(nodes) to find what changed, by comparison.
  Status follow(const Tree& tree, std::span<const std::int32_t> capacity, std::span<const std::int32_t> young,
                const Prices& prices);

  // One such change by itself, after a follow(): O(depth) at most, amortised O(1) between two decisions. Neither number
  // is negative, and their sum is node_pods at most.
  void set(const Tree& tree, NodeId node, std::int32_t capacity, std::int32_t young);

  // The subtree of a domain or of a node, by the last follow() and what set() changed. Valid until the next of them.
  const SubtreePtr& of(const Tree& tree, DomainId domain);
  const SubtreePtr& of_node(NodeId node);

  // follow() was called.
  Subtrees& subtrees() { return *subtrees_; }

 private:
  struct Entry {
    std::uint64_t version = 0;  // of the domain, when the subtree was made
    SubtreePtr subtree;         // null: unknown, and so are those of the domains above
  };

  // Of a node.
  struct Room {
    std::int32_t capacity = 0, young = 0;

    bool operator==(const Room&) const = default;
  };

  Room room(NodeId node) const;
  const SubtreePtr& leaf(std::int32_t capacity);
  // The children that have room; `young` grows by that of all children.
  std::vector<Group> groups_of_nodes(const Tree& tree, DomainId domain, std::int64_t& young);
  std::vector<Group> groups_of_domains(const Tree& tree, DomainId domain, std::int64_t& young);

  std::optional<Subtrees> subtrees_;
  std::vector<Room> rooms_;         // by NodeId
  std::vector<Entry> entries_;      // by DomainId
  std::vector<SubtreePtr> leaves_;  // by capacity
  std::vector<int> counts_;         // by capacity; all 0 between two calls
};

// Equal subtrees in one group, in the order of their first ones.
std::vector<Group> grouped(std::span<const SubtreePtr> children);

}  // namespace lockstep::placement
