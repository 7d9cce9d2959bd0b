// The cluster of the simulations: a topology tree, and which GPUs of its nodes are free. Sums per domain are kept, so
// that a policy and the queue ask for them at no cost.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "operator/placement/tree.h"

namespace lockstep::bench {

using placement::DomainId;
using placement::kClusterLevel;
using placement::kNone;
using placement::kRoot;
using placement::NodeId;
using placement::Tree;

using NodePods = std::vector<std::pair<NodeId, int>>;  // pods by node

constexpr int kBlock = 0, kRack = 1, kNode = 2;  // the levels, outermost first

// A regular cluster.
struct Site {
  int blocks = 8, racks = 16, nodes = 16;  // racks of a block, nodes of a rack
  int gpus = 8;                            // of a node

  int all_nodes() const { return blocks * racks * nodes; }
};

// A node of an irregular cluster.
struct NodeSpec {
  std::string block, rack, name;
  int gpus = 0;
};

class World {
 public:
  // Pods ask for one of `shapes`: numbers of GPUs of one node. Node i of the depth-first order is named gpu-i.
  World(const Site& site, std::vector<int> shapes);
  World(const std::vector<NodeSpec>& nodes, std::vector<int> shapes);

  const Tree& tree() const { return tree_; }
  int nodes_of_a_rack() const { return nodes_of_a_rack_; }  // of the largest one
  int gpus_of_a_node() const { return gpus_of_a_node_; }    // of the largest one
  // Pods of `gpus` GPUs that an empty node holds.
  int node_pods(int gpus) const { return gpus_of_a_node_ / gpus; }

  // How many pods of `gpus` GPUs still fit, by NodeId and by DomainId.
  std::span<const std::int32_t> capacity(int gpus) const { return shape(gpus).node; }
  std::span<const std::int64_t> room(int gpus) const { return shape(gpus).domain; }
  // The most that one domain of the level holds; kClusterLevel asks for the cluster.
  std::int64_t largest(int gpus, int level) const;
  // The domains of a level in depth-first order.
  std::span<const DomainId> domains(int level) const { return levels_[static_cast<std::size_t>(level)]; }

  int free_gpus(NodeId node) const { return free_[static_cast<std::size_t>(node)]; }
  void take(const NodePods& pods, int gpus);
  void give(const NodePods& pods, int gpus);
  // A node without room until it is repaired. It has no pods.
  void fail(NodeId node);
  void repair(NodeId node);

 private:
  struct Shape {
    int gpus = 0;
    std::vector<std::int32_t> node;
    std::vector<std::int64_t> domain;
  };

  void build(const std::vector<NodeSpec>& nodes, const std::vector<int>& shapes);
  const Shape& shape(int gpus) const;
  void set_free(NodeId node, int gpus);

  Tree tree_;
  int nodes_of_a_rack_ = 0, gpus_of_a_node_ = 0;
  std::vector<int> total_, free_;              // GPUs, by NodeId
  std::vector<Shape> shapes_;                  //
  std::vector<std::vector<DomainId>> levels_;  // domains, by level
};

}  // namespace lockstep::bench
