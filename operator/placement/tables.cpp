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

Status Tables::follow(const Tree& tree, const Rooms& rooms, const Prices& prices) {
  const std::size_t nodes = index(tree.node_limit());
  const auto too_short = [&](const char* what, std::span<const std::int32_t> numbers) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: has {} entries, the cluster has node ids below {}", what, numbers.size(), nodes));
  };
  if (rooms.capacity.size() < nodes) return too_short("capacity", rooms.capacity);
  if (!rooms.young.empty() && rooms.young.size() < nodes) return too_short("young", rooms.young);
  if (!rooms.whole.empty() && rooms.whole.size() < nodes) return too_short("whole", rooms.whole);
  if (nodes > kMostNodes) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the cluster has {} nodes, at most {} are supported", nodes, kMostNodes));
  }
  const bool afresh = !subtrees_ || subtrees_->prices() != prices;
  const std::int32_t most = prices.node_pods();
  const auto given = [&](std::size_t node) {
    return Room{rooms.capacity[node], rooms.young.empty() ? 0 : rooms.young[node],
                rooms.whole.empty() ? most : rooms.whole[node]};
  };
  for (std::size_t node = 0; node < nodes; ++node) {
    const Room room = given(node);
    if (!afresh && node < rooms_.size() && rooms_[node] == room) continue;
    if (room.capacity < 0 || room.capacity > most) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("capacity[{}]: must be 0 to node_pods ({}), is {}", node, most, room.capacity));
    }
    if (room.whole < room.capacity || room.whole > most) {
      return fail(ErrorCode::kInvalid, fmt::format("whole[{}]: must be the capacity ({}) to node_pods ({}), is {}",
                                                   node, room.capacity, most, room.whole));
    }
    if (room.young < 0 || room.young > room.whole - room.capacity) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("young[{}]: must be 0 to {}, which is not free when the node is empty, is {}", node,
                              room.whole - room.capacity, room.young));
    }
  }
  if (afresh) {
    leaves_.assign(index(most) + 1, nullptr);
    counts_.assign(index(most) + 1, 0);
    entries_.clear();
    subtrees_.emplace(prices, tree.levels());
    rooms_.resize(nodes);
    for (std::size_t node = 0; node < nodes; ++node) rooms_[node] = given(node);
  }
  if (rooms_.size() < nodes) rooms_.resize(nodes);
  for (std::size_t node = 0; node < nodes; ++node) {
    if (const Room room = given(node); rooms_[node] != room) set(tree, static_cast<NodeId>(node), room);
  }
  entries_.resize(std::max(entries_.size(), index(tree.domain_limit())));
  return {};
}

void Tables::set(const Tree& tree, NodeId node, const Room& room) {
  if (index(node) >= rooms_.size()) rooms_.resize(index(node) + 1);
  rooms_[index(node)] = room;
  // A node that is gone takes its domain's version with it.
  if (!tree.node_in_use(node)) return;
  for (DomainId at = tree.domain_of(node); at != kNone; at = tree.parent(at)) {
    if (index(at) >= entries_.size()) continue;
    if (!entries_[index(at)].subtree) break;
    entries_[index(at)].subtree.reset();
    if (kMutation == Mutation::kKeepTables) break;
  }
}

Room Tables::room(NodeId node) const {
  return index(node) < rooms_.size() ? rooms_[index(node)] : Room{};
}

const SubtreePtr& Tables::of(const Tree& tree, DomainId domain) {
  if (index(domain) >= entries_.size()) entries_.resize(index(tree.domain_limit()));
  if (const Entry& entry = entries_[index(domain)]; entry.subtree && entry.version == tree.version(domain)) {
    return entry.subtree;
  }
  std::int64_t free = 0;
  Sums sums;
  std::vector<Group> groups =
      tree.innermost(domain) ? groups_of_nodes(tree, domain, sums) : groups_of_domains(tree, domain, sums);
  for (const Group& group : groups) free += group.subtree->free * group.count;
  Entry& entry = entries_[index(domain)];
  entry.version = tree.version(domain);
  entry.subtree = subtrees_->domain(tree.level(domain), sums.whole, free, sums.young, false, std::move(groups));
  return entry.subtree;
}

const SubtreePtr& Tables::of_node(NodeId node) {
  return leaf(room(node).capacity);
}

const SubtreePtr& Tables::leaf(std::int32_t capacity) {
  SubtreePtr& leaf = leaves_[index(capacity)];
  if (!leaf) leaf = subtrees_->node(capacity, capacity, false);
  return leaf;
}

std::vector<Group> Tables::groups_of_nodes(const Tree& tree, DomainId domain, Sums& sums) {
  // Counted by capacity and not grouped(): a flat cluster has all its nodes here.
  std::vector<Group> groups;
  for (const NodeId node : tree.nodes(domain)) {
    const auto [capacity, young, whole] = room(node);
    sums.young += young;
    sums.whole += whole;
    if (capacity > 0 && counts_[index(capacity)]++ == 0) groups.push_back({leaf(capacity), 0});
  }
  for (Group& group : groups) {
    int& count = counts_[static_cast<std::size_t>(group.subtree->pods)];
    group.count = count;
    count = 0;
  }
  return groups;
}

std::vector<Group> Tables::groups_of_domains(const Tree& tree, DomainId domain, Sums& sums) {
  std::vector<SubtreePtr> children;
  children.reserve(tree.children(domain).size());
  for (const DomainId child : tree.children(domain)) {
    const SubtreePtr& subtree = of(tree, child);
    sums.young += subtree->young;
    sums.whole += subtree->whole;
    if (subtree->pods > 0) children.push_back(subtree);
  }
  return grouped(children);
}

}  // namespace lockstep::placement
