#include "operator/placement/tables.h"

#include <fmt/format.h>

#include <unordered_map>

#include "operator/placement/mutation.h"

namespace lockstep::placement {
namespace {

std::size_t index(std::int32_t id) {
  return static_cast<std::size_t>(id);
}

}  // namespace

std::vector<Group> grouped(std::span<const SubtreePtr> children) {
  std::vector<Group> groups;
  std::unordered_map<std::uint64_t, std::size_t> at;
  for (const SubtreePtr& child : children) {
    const auto [entry, added] = at.try_emplace(child->serial, groups.size());
    if (added) groups.push_back({child, 0});
    ++groups[entry->second].count;
  }
  return groups;
}

Status Tables::follow(const Tree& tree, std::span<const std::int32_t> capacity, const Prices& prices) {
  const std::size_t nodes = index(tree.node_limit());
  if (capacity.size() < nodes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("capacity: has {} entries, the cluster has node ids below {}", capacity.size(), nodes));
  }
  if (nodes > kMostNodes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the cluster has {} nodes, at most {} are supported", nodes, kMostNodes));
  }
  const bool afresh = !subtrees_ || subtrees_->prices() != prices;
  const auto changed = [&](std::size_t node) {
    return afresh || node >= capacity_.size() || capacity_[node] != capacity[node];
  };
  for (std::size_t node = 0; node < nodes; ++node) {
    if (!changed(node) || (capacity[node] >= 0 && capacity[node] <= prices.node_pods())) continue;
    return fail(ErrorCode::kInvalid, fmt::format("capacity[{}]: must be 0 to node_pods ({}), is {}", node,
                                                 prices.node_pods(), capacity[node]));
  }
  if (afresh) {
    leaves_.assign(index(prices.node_pods()) + 1, nullptr);
    counts_.assign(index(prices.node_pods()) + 1, 0);
    entries_.clear();
    subtrees_.emplace(prices, tree.levels());
    capacity_.assign(capacity.begin(), capacity.begin() + static_cast<std::ptrdiff_t>(nodes));
  }
  const std::size_t before = capacity_.size();
  if (before < nodes) capacity_.resize(nodes, 0);
  for (std::size_t node = 0; node < nodes; ++node) {
    if (capacity_[node] != capacity[node]) set(tree, static_cast<NodeId>(node), capacity[node]);
  }
  entries_.resize(std::max(entries_.size(), index(tree.domain_limit())));
  return {};
}

void Tables::set(const Tree& tree, NodeId node, std::int32_t capacity) {
  if (index(node) >= capacity_.size()) capacity_.resize(index(node) + 1, 0);
  capacity_[index(node)] = capacity;
  // A node that is gone takes its domain's version with it.
  if (!tree.node_in_use(node)) return;
  for (DomainId at = tree.domain_of(node); at != kNone; at = tree.parent(at)) {
    if (index(at) >= entries_.size()) continue;
    if (!entries_[index(at)].subtree) break;
    entries_[index(at)].subtree.reset();
    if (kMutation == Mutation::kKeepTables) break;
  }
}

const SubtreePtr& Tables::of(const Tree& tree, DomainId domain) {
  if (index(domain) >= entries_.size()) entries_.resize(index(tree.domain_limit()));
  if (const Entry& entry = entries_[index(domain)]; entry.subtree && entry.version == tree.version(domain)) {
    return entry.subtree;
  }
  std::vector<Group> groups = tree.innermost(domain) ? groups_of_nodes(tree, domain) : groups_of_domains(tree, domain);
  std::int64_t free = 0;
  for (const Group& group : groups) free += group.subtree->free * group.count;
  Entry& entry = entries_[index(domain)];
  entry.version = tree.version(domain);
  entry.subtree = subtrees_->domain(tree.level(domain), tree.node_count(domain), free, false, std::move(groups));
  return entry.subtree;
}

const SubtreePtr& Tables::of_node(NodeId node) {
  return leaf(index(node) < capacity_.size() ? capacity_[index(node)] : 0);
}

const SubtreePtr& Tables::leaf(std::int32_t capacity) {
  SubtreePtr& leaf = leaves_[index(capacity)];
  if (!leaf) leaf = subtrees_->node(capacity, capacity, false);
  return leaf;
}

std::vector<Group> Tables::groups_of_nodes(const Tree& tree, DomainId domain) {
  // Counted by capacity and not grouped(): a flat cluster has all its nodes here.
  std::vector<Group> groups;
  for (const NodeId node : tree.nodes(domain)) {
    const std::int32_t capacity = index(node) < capacity_.size() ? capacity_[index(node)] : 0;
    if (capacity > 0 && counts_[index(capacity)]++ == 0) groups.push_back({leaf(capacity), 0});
  }
  for (Group& group : groups) {
    int& count = counts_[static_cast<std::size_t>(group.subtree->pods)];
    group.count = count;
    count = 0;
  }
  return groups;
}

std::vector<Group> Tables::groups_of_domains(const Tree& tree, DomainId domain) {
  std::vector<SubtreePtr> children;
  children.reserve(tree.children(domain).size());
  for (const DomainId child : tree.children(domain)) {
    if (const SubtreePtr& subtree = of(tree, child); subtree->pods > 0) children.push_back(subtree);
  }
  return grouped(children);
}

}  // namespace lockstep::placement
