#include "operator/placement/hold.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::placement {
namespace {

using Counts = std::vector<std::int64_t>;  // by DomainId

std::size_t at(std::int32_t id) {
  return static_cast<std::size_t>(id);
}

void add_up(const Tree& tree, NodeId node, std::int64_t pods, Counts& counts) {
  for (DomainId domain = tree.domain_of(node); domain != kNone; domain = tree.parent(domain)) {
    counts[at(domain)] += pods;
  }
}

// A node without the label of a level may not be used where that level is required.
bool may_use(const Tree& tree, NodeId node, std::optional<int> required) {
  return !required || tree.complete(node, *required);
}

Counts sum(const Tree& tree, const std::vector<std::int32_t>& pods, std::optional<int> required) {
  Counts counts(at(tree.domain_limit()));
  for (NodeId node = 0; node < tree.node_limit(); ++node) {
    if (pods[at(node)] > 0 && may_use(tree, node, required)) add_up(tree, node, pods[at(node)], counts);
  }
  return counts;
}

// How many pods a domain has room for, now and if it were empty.
struct Prospect {
  HeldDomain held;
  int level = kClusterLevel;
  std::int64_t free = 0, empty = 0;
};

bool is_better(const Prospect& one, const Prospect& other) {
  if (one.level != other.level) return one.level > other.level;
  return one.free > other.free;
}

class ProspectChooser {
 public:
  ProspectChooser(const Tree& tree, const Need& need) : need_(need), survivors_(at(tree.domain_limit())) {
    for (const auto& [node, pods] : need.survivors) {
      add_up(tree, node, pods, survivors_);
      all_ += pods;
    }
  }

  void offer(const Prospect& prospect, std::int64_t survivors) {
    if (prospect.level < need_.required.value_or(kClusterLevel)) return;
    if (need_.required && survivors < all_) return;
    if (prospect.empty < need_.pods) return;
    if (best_.held.domain == kNone || is_better(prospect, best_)) best_ = prospect;
  }
  std::int64_t survivors(DomainId domain) const { return survivors_[at(domain)]; }
  // Its domain is kNone when none is large enough.
  const HeldDomain& best() const { return best_.held; }

 private:
  const Need& need_;
  Counts survivors_;
  std::int64_t all_ = 0;
  Prospect best_;
};

}  // namespace

std::vector<NodeId> nodes_of(const Tree& tree, const HeldDomain& held) {
  std::vector<NodeId> found;
  for (NodeId node = 0; node < tree.node_limit(); ++node) {
    if (!tree.node_in_use(node)) continue;
    if (held.node != kNone ? node == held.node : tree.domain_of(node, tree.level(held.domain)) == held.domain) {
      found.push_back(node);
    }
  }
  return found;
}

std::string name_of(const Tree& tree, const HeldDomain& held) {
  if (held.node != kNone) return "node " + tree.node_name(held.node);
  if (held.domain == kRoot) return "the cluster";
  const auto path = tree.path(held.domain);
  return fmt::format("{} {}", tree.profile().levels[at(tree.level(held.domain))].name, fmt::join(path, "/"));
}

std::optional<HeldDomain> domain_to_hold(ClusterView& cluster, const Need& need) {
  const Tree& tree = cluster.tree();
  auto free = cluster.free(need.shape);
  auto empty = cluster.empty(need.shape);
  for (const NodeId node : need.closed) free[at(node)] = empty[at(node)] = 0;
  // Survivors stay where they are.
  for (const auto& [node, pods] : need.survivors) {
    empty[at(node)] = need.exclusive ? 0 : std::max(0, empty[at(node)] - pods);
    if (need.exclusive) free[at(node)] = 0;
  }
  if (need.exclusive) {
    for (auto* pods : {&free, &empty}) {
      std::transform(pods->begin(), pods->end(), pods->begin(), [](std::int32_t n) { return std::min(n, 1); });
    }
  }
  ProspectChooser chooser(tree, need);
  const Counts free_sum = sum(tree, free, need.required), empty_sum = sum(tree, empty, need.required);
  for (DomainId domain = 0; domain < tree.domain_limit(); ++domain) {
    if (empty_sum[at(domain)] == 0) continue;  // or not in use
    chooser.offer({{domain, kNone}, tree.level(domain), free_sum[at(domain)], empty_sum[at(domain)]},
                  chooser.survivors(domain));
  }
  std::vector<std::int32_t> beside(at(tree.node_limit()));
  for (const auto& [node, pods] : need.survivors) beside[at(node)] += pods;
  for (NodeId node = 0; node < tree.node_limit(); ++node) {
    if (empty[at(node)] == 0 || !may_use(tree, node, need.required)) continue;
    chooser.offer({{tree.domain_of(node), node}, tree.levels(), free[at(node)], empty[at(node)]}, beside[at(node)]);
  }
  if (chooser.best().domain == kNone) return std::nullopt;
  return chooser.best();
}

int largest_hole(ClusterView& cluster, ShapeId shape, std::optional<int> level) {
  const Tree& tree = cluster.tree();
  const Counts counts = sum(tree, cluster.free(shape), level);
  std::int64_t most = 0;
  for (DomainId domain = 0; domain < tree.domain_limit(); ++domain) {
    if (counts[at(domain)] > 0 && tree.level(domain) == level.value_or(kClusterLevel)) {
      most = std::max(most, counts[at(domain)]);
    }
  }
  return static_cast<int>(std::min<std::int64_t>(most, 1 << 30));
}

}  // namespace lockstep::placement
