// What the peers' rules look at: domains and nodes of one level with their room, in the order of their paths.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/bench/placement/policy.h"

namespace lockstep::bench {

// A domain, or a node at level kNode.
struct Cell {
  std::int32_t id = kNone;
  std::int64_t room = 0;
};

inline std::int64_t room_of_domain(const World& world, int gpus, DomainId domain) {
  return world.room(gpus)[static_cast<std::size_t>(domain)];
}

// The children of a domain, by name.
inline void append_children(const World& world, int gpus, DomainId domain, std::vector<Cell>& cells) {
  for (const DomainId child : world.tree().children(domain)) {
    cells.push_back({child, room_of_domain(world, gpus, child)});
  }
  for (const NodeId node : world.tree().nodes(domain)) {
    cells.push_back({node, world.capacity(gpus)[static_cast<std::size_t>(node)]});
  }
}

// All cells of `level` inside of `domain`.
inline std::vector<Cell> cells_inside(const World& world, int gpus, DomainId domain, int level) {
  std::vector<Cell> cells{{domain, room_of_domain(world, gpus, domain)}};
  for (int at = world.tree().level(domain); at < level; ++at) {
    std::vector<Cell> below;
    for (const Cell& cell : cells) append_children(world, gpus, cell.id, below);
    cells = std::move(below);
  }
  return cells;
}

// Where a required level leaves a replacement: the domain of the survivors. The root where nothing is required or
// nobody survives.
inline DomainId domain_of_survivors(const World& world, const Ask& ask) {
  if (!ask.required || ask.survivors.empty()) return kRoot;
  return world.tree().domain_of(ask.survivors.front().first, *ask.required);
}

// Fills the nodes in this order.
inline NodePods fill_in_order(const std::vector<Cell>& nodes, std::int64_t pods) {
  NodePods taken;
  for (const Cell& node : nodes) {
    const std::int64_t share = std::min(pods, node.room);
    if (share > 0) taken.emplace_back(node.id, static_cast<int>(share));
    pods -= share;
    if (pods == 0) return taken;
  }
  return {};
}

}  // namespace lockstep::bench
