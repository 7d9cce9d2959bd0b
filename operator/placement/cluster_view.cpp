#include "operator/placement/cluster_view.h"

#include <algorithm>

namespace lockstep::placement {

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

std::optional<std::vector<std::pair<NodeId, int>>> ClusterView::place(const Search& search) {
  ++searches_;
  const auto room = cluster_.fit(search.shape);
  if (!room) return std::nullopt;
  Request request;
  request.pods = search.pods;
  request.required = search.required;
  request.preferred = search.preferred;
  request.capacity = *room;
  request.survivors = search.survivors;
  request.exclude = search.closed;
  if (search.exclusive) {
    std::vector<std::int32_t> one(room->size());
    std::transform(room->begin(), room->end(), one.begin(), [](std::int32_t pods) { return std::min(pods, 1); });
    for (const auto& [node, pods] : search.survivors) request.exclude.push_back(node);
    request.capacity = one;
    auto placed = placement::place(tree(), request);
    if (auto* found = std::get_if<Assignment>(&placed)) return std::move(found->nodes);
    return std::nullopt;
  }
  Known& tables = known(search.shape);
  for (const std::int32_t pods : *room) tables.node_pods = std::max(tables.node_pods, pods);
  request.node_pods = tables.node_pods;
  auto placed = placement::place(tree(), tables.tables, request);
  if (auto* found = std::get_if<Assignment>(&placed)) return std::move(found->nodes);
  return std::nullopt;
}

}  // namespace lockstep::placement
