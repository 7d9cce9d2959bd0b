// How often a ring over the pods of a gang crosses from one rack, or one block, into another. The order of ranks that
// Lockstep gives is held against other orders and the least that any order has.
#pragma once

#include <cstdint>
#include <vector>

#include "operator/rendezvous/rank_order.h"
#include "tests/bench/placement/world.h"

namespace lockstep::bench {

// The pods of a gang by slot: who is where.
struct Member {
  rendezvous::Place place;
  NodeId node = kNone;
};

struct Crossings {
  std::int64_t racks = 0, blocks = 0;

  bool operator==(const Crossings&) const = default;
  Crossings& operator+=(const Crossings& other) {
    racks += other.racks;
    blocks += other.blocks;
    return *this;
  }
};

// Of a ring over the nodes in this order.
Crossings crossings(const Tree& tree, const std::vector<NodeId>& ring);
// The least of any order: each domain is entered once.
Crossings least_crossings(const Tree& tree, const std::vector<NodeId>& nodes);
// The members in order of rank, by rank_order() with the paths of their nodes.
std::vector<rendezvous::Place> ranks(const Tree& tree, const std::vector<rendezvous::Place>& before,
                                     const std::vector<Member>& members);
// The nodes of places in this order.
std::vector<NodeId> nodes_of(const std::vector<Member>& members, const std::vector<rendezvous::Place>& order);

}  // namespace lockstep::bench
