#include "tests/bench/placement/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace lockstep::bench {
namespace {

std::vector<NodeSpec> nodes_of(const Site& site) {
  std::vector<NodeSpec> nodes;
  for (int node = 0; node < site.all_nodes(); ++node) {
    const int rack = node / site.nodes, block = rack / site.racks;
    nodes.push_back(
        {fmt::format("b{:03}", block), fmt::format("r{:05}", rack), fmt::format("gpu-{}", node), site.gpus});
  }
  return nodes;
}

}  // namespace

World::World(const Site& site, std::vector<int> shapes) : World(nodes_of(site), std::move(shapes)) {}

World::World(const std::vector<NodeSpec>& nodes, std::vector<int> shapes)
    : tree_({"bench", {{"block", "b"}, {"rack", "r"}}}) {
  build(nodes, shapes);
}

void World::build(const std::vector<NodeSpec>& nodes, const std::vector<int>& shapes) {
  for (const NodeSpec& node : nodes) tree_.put(node.name, {{"b", node.block}, {"r", node.rack}});
  levels_.resize(2);
  for (const DomainId block : tree_.children(kRoot)) {
    levels_[kBlock].push_back(block);
    for (const DomainId rack : tree_.children(block)) {
      levels_[kRack].push_back(rack);
      nodes_of_a_rack_ = std::max(nodes_of_a_rack_, tree_.node_count(rack));
    }
  }
  const auto node_limit = static_cast<std::size_t>(tree_.node_limit());
  total_.assign(node_limit, 0);
  free_.assign(node_limit, 0);
  for (const int gpus : shapes) {
    shapes_.push_back({gpus, std::vector<std::int32_t>(node_limit, 0),
                       std::vector<std::int64_t>(static_cast<std::size_t>(tree_.domain_limit()), 0)});
  }
  for (const NodeSpec& node : nodes) {
    const NodeId id = tree_.find(node.name);
    total_[static_cast<std::size_t>(id)] = node.gpus;
    gpus_of_a_node_ = std::max(gpus_of_a_node_, node.gpus);
    set_free(id, node.gpus);
  }
}

const World::Shape& World::shape(int gpus) const {
  for (const Shape& shape : shapes_) {
    if (shape.gpus == gpus) return shape;
  }
  fmt::print(stderr, "the world was made for no pods of {} GPUs\n", gpus);
  std::abort();
}

std::int64_t World::largest(int gpus, int level) const {
  const auto room = this->room(gpus);
  if (level == kClusterLevel) return room[kRoot];
  std::int64_t most = 0;
  for (const DomainId domain : domains(level)) most = std::max(most, room[static_cast<std::size_t>(domain)]);
  return most;
}

void World::set_free(NodeId node, int gpus) {
  const auto at = static_cast<std::size_t>(node);
  free_[at] = gpus;
  for (Shape& shape : shapes_) {
    const std::int32_t pods = gpus / shape.gpus;
    const std::int32_t added = pods - shape.node[at];
    if (added == 0) continue;
    shape.node[at] = pods;
    for (DomainId up = tree_.domain_of(node); up != kNone; up = tree_.parent(up)) {
      shape.domain[static_cast<std::size_t>(up)] += added;
    }
  }
}

void World::take(const NodePods& pods, int gpus) {
  for (const auto& [node, count] : pods) set_free(node, free_gpus(node) - count * gpus);
}

void World::give(const NodePods& pods, int gpus) {
  for (const auto& [node, count] : pods) set_free(node, free_gpus(node) + count * gpus);
}

void World::fail(NodeId node) {
  set_free(node, 0);
}

void World::repair(NodeId node) {
  set_free(node, total_[static_cast<std::size_t>(node)]);
}

}  // namespace lockstep::bench
