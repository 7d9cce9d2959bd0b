// What the placer asks of the cluster: room for pods of a shape, places for a gang, reservations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/result.h"
#include "operator/placement/cluster.h"
#include "operator/placement/place.h"
#include "operator/placement/tables.h"

namespace lockstep::placement {

// Where pods of one shape are to go.
struct Search {
  ShapeId shape = 0;
  int pods = 0;
  std::optional<int> required{};                    // survivors and new pods lie in one domain of this level
  std::optional<int> preferred{};                   // to lie in one domain of this level is enough
  bool exclusive = false;                           // at most one on a node, and none beside a survivor
  bool spread = false;                              // as spread(); `preferred` is not looked at
  std::vector<std::pair<NodeId, int>> survivors{};  // pods of the gang that stay
  std::vector<NodeId> closed{};                     // where none may go
};

// The innermost level of which one domain has all these nodes; levels(): it is one node.
int level_spanned(const Tree& tree, const std::vector<std::pair<NodeId, int>>& nodes);

// Keeps the tables of the dynamic programme for the shapes that were asked for last. Not thread-safe.
class ClusterView {
 public:
  // `cluster` outlives this.
  explicit ClusterView(Cluster& cluster) : cluster_(cluster) {}

  const Tree& tree() const { return cluster_.tree(); }
  // kUnavailable while the room for the shape is not known: nothing is decided for it.
  Status ready(ShapeId shape);
  // As Cluster::pass_time().
  void pass_time(std::int64_t now) { cluster_.pass_time(now); }
  // By NodeId: how many pods of the shape still fit, and how many would fit if no pod were there.
  std::vector<std::int32_t> free(ShapeId shape);
  std::vector<std::int32_t> empty(ShapeId shape) const;
  // Nodes for all pods of the search; empty when they do not fit. The score of a spread is not known.
  std::optional<Assignment> place(const Search& search);
  // What pods of the shape that count on these nodes cost by the default objective; empty while that is not known.
  std::optional<double> cost(ShapeId shape, const std::vector<std::pair<NodeId, int>>& nodes);

  // As Cluster has them.
  void reserve(const std::string& pod, NodeId node, ShapeId shape) { cluster_.reserve(pod, node, shape); }
  void written(const std::string& pod, const std::string& version) { cluster_.written(pod, version); }
  void unreserve(const std::string& pod) { cluster_.unreserve(pod); }
  bool open(const std::string& pod, const Uid& uid, NodeId node, ShapeId shape) {
    return cluster_.open(pod, uid, node, shape);
  }
  void shown_open(const std::string& pod, const Uid& uid, NodeId node, ShapeId shape, const std::string& version) {
    cluster_.shown_open(pod, uid, node, shape, version);
  }
  bool holds(NodeId node, ShapeId shape) const { return cluster_.holds(node, shape); }

  // How often place() was asked.
  std::uint64_t searches() const { return searches_; }

 private:
  struct Known {
    Tables tables;
    std::uint64_t asked = 0;
  };
  static constexpr std::size_t kMostTables = 32;

  Tables& tables(ShapeId shape);
  std::optional<Assignment> spread_out(const Search& search, std::span<const std::int32_t> fits) const;

  Cluster& cluster_;
  std::map<ShapeId, Known> known_;
  std::uint64_t searches_ = 0;
};

}  // namespace lockstep::placement
