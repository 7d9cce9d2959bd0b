#include "operator/placement/cluster_view.h"

#include <algorithm>

#include "operator/placement/spread.h"

namespace lockstep::placement {

namespace {

// The room for a gang of which no two pods are on one node.
std::vector<std::int32_t> one_on_each(const Search& search, std::span<const std::int32_t> fits) {
  std::vector<std::int32_t> one(fits.size());
  std::transform(fits.begin(), fits.end(), one.begin(), [](std::int32_t pods) { return std::min(pods, 1); });
  for (const auto& [node, pods] : search.survivors) one[static_cast<std::size_t>(node)] = 0;
  return one;
}

// What of it does not exceed node_pods together with the capacity.
std::vector<std::int32_t> limited(std::span<const std::int32_t> young, std::span<const std::int32_t> capacity,
                                  std::int32_t node_pods) {
  std::vector<std::int32_t> least(young.size());
  for (std::size_t node = 0; node < young.size(); ++node) {
    least[node] = std::clamp(young[node], 0, std::max(0, node_pods - capacity[node]));
  }
  return least;
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

ClusterView::Known& ClusterView::known(ShapeId shape) {
  auto found = known_.find(shape);
  if (found == known_.end()) {
    if (known_.size() == kMostTables) {
      known_.erase(std::min_element(known_.begin(), known_.end(), [](const auto& one, const auto& other) {
        return one.second.asked < other.second.asked;
      }));
    }
    found = known_.try_emplace(shape).first;
    const auto room = empty(shape);
    for (const std::int32_t pods : room) found->second.node_pods = std::max(found->second.node_pods, pods);
  }
  found->second.asked = searches_;
  return found->second;
}

std::optional<Assignment> ClusterView::place(const Search& search) {
  ++searches_;
  const auto known_fits = cluster_.fits(search.shape);
  if (!known_fits) return std::nullopt;
  const auto [room, young] = *known_fits;
  if (search.spread) return spread_out(search, room);
  Request request;
  request.pods = search.pods;
  request.required = search.required;
  request.preferred = search.preferred;
  request.capacity = room;
  request.survivors = search.survivors;
  request.exclude = search.closed;
  if (search.exclusive) {
    const auto one = one_on_each(search, room), young_one = limited(young, one, 1);
    request.capacity = one;
    request.young = young_one;
    request.node_pods = 1;
    auto placed = placement::place(tree(), request);
    if (auto* found = std::get_if<Assignment>(&placed)) return std::move(*found);
    return std::nullopt;
  }
  Known& tables = known(search.shape);
  for (const std::int32_t pods : room) tables.node_pods = std::max(tables.node_pods, pods);
  request.node_pods = tables.node_pods;
  const auto limited_young = limited(young, room, tables.node_pods);
  request.young = limited_young;
  auto placed = placement::place(tree(), tables.tables, request);
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
  const auto fits = cluster_.fits(shape);
  if (!fits || nodes.empty()) return std::nullopt;
  Known& tables = known(shape);
  std::vector<std::int32_t> room(fits->fit.begin(), fits->fit.end()), others(fits->young.begin(), fits->young.end());
  ShrinkRequest request;
  request.keep = 0;
  request.current = nodes;
  for (const std::int32_t pods : room) tables.node_pods = std::max(tables.node_pods, pods);
  for (const auto& [node, pods] : nodes) {
    std::int32_t& free = room[static_cast<std::size_t>(node)];
    free = std::clamp(free, 0, kMostFit - pods);
    tables.node_pods = std::max(tables.node_pods, free + pods);
    others[static_cast<std::size_t>(node)] -= pods;  // the gang itself is no part of a hole that it is in
    request.keep += pods;
  }
  request.capacity = room;
  const auto young = limited(others, room, tables.node_pods);
  request.young = young;
  request.node_pods = tables.node_pods;
  const auto placed = shrink(tree(), tables.tables, request);
  const auto* found = std::get_if<Assignment>(&placed);
  return found == nullptr ? std::nullopt : std::optional(found->score);
}

}  // namespace lockstep::placement
