#include "operator/placement/cluster_view.h"

#include <algorithm>

#include "operator/placement/spread.h"

namespace lockstep::placement {

namespace {

std::vector<std::int32_t> at_most_one(std::span<const std::int32_t> pods) {
  std::vector<std::int32_t> one(pods.size());
  std::transform(pods.begin(), pods.end(), one.begin(), [](std::int32_t count) { return std::min(count, 1); });
  return one;
}

int largest(std::span<const std::int32_t> pods) {
  return pods.empty() ? 1 : std::max(1, *std::max_element(pods.begin(), pods.end()));
}

// The room for a gang of which no two pods are on one node.
std::vector<std::int32_t> one_on_each(const Search& search, std::span<const std::int32_t> capacity) {
  std::vector<std::int32_t> one = at_most_one(capacity);
  for (const auto& [node, pods] : search.survivors) one[static_cast<std::size_t>(node)] = 0;
  return one;
}

}  // namespace

int level_spanned(const Tree& tree, const std::vector<std::pair<NodeId, int>>& nodes) {
  if (nodes.size() == 1) return tree.levels();
  int level = tree.levels() - 1;
  const auto together = [&] {
    return std::all_of(nodes.begin(), nodes.end(), [&](const auto& node) {
      return tree.domain_of(node.first, level) == tree.domain_of(nodes.front().first, level);
    });
  };
  while (level > kClusterLevel && !together()) --level;
  return level;
}

Status ClusterView::ready(ShapeId shape) {
  const auto room = cluster_.fit(shape);
  if (!room) return room.error();
  return {};
}

std::vector<std::int32_t> ClusterView::free(ShapeId shape) {
  const auto room = cluster_.fit(shape);
  if (!room) return std::vector<std::int32_t>(static_cast<std::size_t>(tree().node_limit()));
  return {room->begin(), room->end()};
}

std::vector<std::int32_t> ClusterView::empty(ShapeId shape) const {
  auto room = cluster_.fit_empty(shape);
  if (!room) return std::vector<std::int32_t>(static_cast<std::size_t>(tree().node_limit()));
  return *std::move(room);
}

Tables& ClusterView::tables(ShapeId shape) {
  auto found = known_.find(shape);
  if (found == known_.end()) {
    if (known_.size() == kMostTables) {
      known_.erase(std::min_element(known_.begin(), known_.end(), [](const auto& one, const auto& other) {
        return one.second.asked < other.second.asked;
      }));
    }
    found = known_.try_emplace(shape).first;
  }
  found->second.asked = searches_;
  return found->second.tables;
}

std::optional<Assignment> ClusterView::place(const Search& search) {
  ++searches_;
  const auto rooms = cluster_.rooms(search.shape);
  if (!rooms) return std::nullopt;
  if (search.spread) return spread_out(search, rooms->capacity);
  Request request;
  request.pods = search.pods;
  request.required = search.required;
  request.preferred = search.preferred;
  request.survivors = search.survivors;
  request.exclude = search.closed;
  if (search.exclusive) {
    const auto one = one_on_each(search, rooms->capacity), whole = at_most_one(rooms->whole);
    std::vector<std::int32_t> young = at_most_one(rooms->young);
    for (std::size_t node = 0; node < young.size(); ++node) {
      young[node] = std::min(young[node], whole[node] - one[node]);
    }
    request.capacity = one;
    request.young = young;
    request.whole = whole;
    request.node_pods = 1;
    auto placed = placement::place(tree(), request);
    if (auto* found = std::get_if<Assignment>(&placed)) return std::move(*found);
    return std::nullopt;
  }
  request.capacity = rooms->capacity;
  request.young = rooms->young;
  request.whole = rooms->whole;
  request.node_pods = largest(rooms->whole);
  auto placed = placement::place(tree(), tables(search.shape), request);
  if (auto* found = std::get_if<Assignment>(&placed)) return std::move(*found);
  return std::nullopt;
}

std::optional<Assignment> ClusterView::spread_out(const Search& search, std::span<const std::int32_t> fits) const {
  auto room = search.exclusive ? one_on_each(search, fits) : std::vector<std::int32_t>(fits.begin(), fits.end());
  for (const NodeId node : search.closed) room[static_cast<std::size_t>(node)] = 0;
  auto nodes = spread(tree(), room, search.pods, search.required, search.survivors);
  if (!nodes) return std::nullopt;
  Assignment assignment;
  assignment.nodes = std::move(*nodes);
  std::map<NodeId, int> all(assignment.nodes.begin(), assignment.nodes.end());
  for (const auto& [node, pods] : search.survivors) all[node] += pods;
  assignment.level_spanned = level_spanned(tree(), {all.begin(), all.end()});
  return assignment;
}

std::optional<double> ClusterView::cost(ShapeId shape, const std::vector<std::pair<NodeId, int>>& nodes) {
  const auto rooms = cluster_.rooms(shape);
  if (!rooms || nodes.empty()) return std::nullopt;
  ShrinkRequest request;
  request.keep = 0;
  request.current = nodes;
  request.capacity = rooms->capacity;
  request.young = rooms->young;
  request.whole = rooms->whole;
  const int node_pods = request.node_pods = largest(rooms->whole);
  for (const auto& [node, pods] : nodes) {
    const std::int32_t free = rooms->capacity[static_cast<std::size_t>(node)];
    request.node_pods = std::max(request.node_pods, std::min(free + pods, kMostFit));
    request.keep += pods;
  }
  // A node that has less than its pods take is priced with tables of its own: those that are kept stay as they are.
  Tables apart;
  const auto placed = shrink(tree(), request.node_pods == node_pods ? tables(shape) : apart, request);
  const auto* found = std::get_if<Assignment>(&placed);
  return found == nullptr ? std::nullopt : std::optional(found->score);
}

}  // namespace lockstep::placement
