// Nodes, shapes and what fits. Pods and reservations are in cluster_pods.cpp.
#include "operator/placement/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::placement {
namespace {

// Kept whether or not a selector names them, so that most new selectors need no new list of nodes.
constexpr const char* kUsualKeys[] = {"kubernetes.io/arch",
                                      "kubernetes.io/os",
                                      "node.kubernetes.io/instance-type",
                                      "nvidia.com/gpu.product",
                                      "topology.kubernetes.io/region",
                                      "topology.kubernetes.io/zone"};

}  // namespace

Cluster::Cluster(Profile profile) : tree_(std::move(profile)) {
  for (const Level& level : tree_.profile().levels) label_keys_.insert(level.label);
  for (const char* key : kUsualKeys) use_key(key, 1);
}

void Cluster::begin_nodes() {
  ++node_list_;
  listing_keys_.clear();
  for (const auto& [key, holders] : key_holders_) listing_keys_.insert(key);
}

void Cluster::end_nodes(bool whole) {
  nodes_listed_ = true;
  listed_keys_ = std::exchange(listing_keys_, {});
  if (!whole) return;
  std::vector<std::string> gone;
  for (NodeId node = 0; node < tree_.node_limit(); ++node) {
    if (tree_.node_in_use(node) && nodes_[index(node)].list != node_list_) gone.push_back(tree_.node_name(node));
  }
  for (const std::string& name : gone) remove_node(name);
}

void Cluster::put_node(const NodeRecord& record) {
  const bool is_new = tree_.find(record.name) == kNone;
  const NodeId id = tree_.put(record.name, record.labels);
  nodes_.resize(index(tree_.node_limit()));
  Node& node = nodes_[index(id)];
  node.list = node_list_;
  bool changed = is_new;
  const NodeState state = state_of(record);
  changed |= std::exchange(node.state, state) != state;
  if (record.sickness.empty()) {
    sickness_.erase(id);
  } else {
    sickness_[id] = record.sickness;
  }

  const std::int32_t node_class = acquire_class(record);
  changed |= node_class != node.node_class;
  if (const std::int32_t old = std::exchange(node.node_class, node_class); old != kNone) release_class(old);

  if (node.allocatable == kNone || !rows_.equal(node.allocatable, record.allocatable)) {
    const RowId allocatable = rows_.acquire(record.allocatable);
    if (const RowId old = std::exchange(node.allocatable, allocatable); old != kNone) rows_.release(old);
    changed = true;
    recount(id);
  }
  if (is_new) {
    if (const auto waiting = absent_by_name_.find(record.name); waiting != absent_by_name_.end()) {
      move_pods(absent_[index(waiting->second)].first_pod, id);
    }
  }
  if (changed) tables_.touch(id);
}

void Cluster::remove_node(const std::string& name) {
  const NodeId id = tree_.find(name);
  if (id == kNone) return;
  const PodIndex first = nodes_[index(id)].first_pod;
  tree_.remove(name);  // before its pods move: they are to find no node of that name
  if (first != kNone) move_pods(first, place_of(name, kNone));
  Node& node = nodes_[index(id)];
  release_class(node.node_class);
  rows_.release(node.allocatable);
  sickness_.erase(id);
  ages_at_.erase({node.ages_at, id});
  node = {};
  tables_.touch(id);
}

const std::string& Cluster::sickness(NodeId node) const {
  static const std::string none;
  const auto known = sickness_.find(node);
  return known == sickness_.end() ? none : known->second;
}

bool Cluster::wants_node_list() const {
  return nodes_listed_ && std::any_of(key_holders_.begin(), key_holders_.end(),
                                      [&](const auto& key) { return !listed_keys_.contains(key.first); });
}

std::int32_t Cluster::acquire_class(const NodeRecord& record) {
  NodeClass kind{{}, record.taints};
  for (const auto& [key, value] : record.labels) {
    if (key_holders_.contains(key)) kind.labels.emplace(key, value);
  }
  if (const auto known = class_ids_.find(kind); known != class_ids_.end()) {
    ++class_nodes_[index(known->second)];
    return known->second;
  }
  std::int32_t id = static_cast<std::int32_t>(classes_.size());
  if (free_classes_.empty()) {
    classes_.emplace_back();
    class_nodes_.push_back(0);
  } else {
    id = free_classes_.back();
    free_classes_.pop_back();
  }
  classes_[index(id)] = class_ids_.emplace(std::move(kind), id).first;
  class_nodes_[index(id)] = 1;
  // What shapes know is of the class that had the id before.
  for (const KnownShape& shape : shapes_) {
    if (index(id) < shape.admits.size()) shape.admits[index(id)] = -1;
  }
  return id;
}

void Cluster::release_class(std::int32_t id) {
  if (--class_nodes_[index(id)] > 0) return;
  class_ids_.erase(classes_[index(id)]);
  free_classes_.push_back(id);
}

void Cluster::use_key(const std::string& key, int holders) {
  const auto found = key_holders_.try_emplace(key, 0).first;
  found->second += holders;
  if (found->second > 0) {
    label_keys_.insert(key);
    return;
  }
  key_holders_.erase(found);
  listed_keys_.erase(key);
  listing_keys_.erase(key);
  const auto& levels = tree_.profile().levels;
  if (std::none_of(levels.begin(), levels.end(), [&](const Level& level) { return level.label == key; })) {
    label_keys_.erase(key);
  }
}

ShapeId Cluster::acquire(const Shape& shape) {
  if (const auto known = shape_ids_.find(shape); known != shape_ids_.end()) {
    ++shapes_[index(known->second)].holders;
    return known->second;
  }
  ShapeId id = static_cast<ShapeId>(shapes_.size());
  if (free_shapes_.empty()) {
    shapes_.emplace_back();
  } else {
    id = free_shapes_.back();
    free_shapes_.pop_back();
  }
  shapes_[index(id)] = {shape, rows_.acquire(shape.requests), reads_name(shape), 1, {}};
  shape_ids_.emplace(shape, id);
  for (const std::string& key : selector_keys(shape)) use_key(key, 1);
  return id;
}

void Cluster::release(ShapeId id) {
  KnownShape& known = shapes_[index(id)];
  if (--known.holders > 0) return;
  for (const std::string& key : selector_keys(known.shape)) use_key(key, -1);
  rows_.release(known.requests);
  shape_ids_.erase(known.shape);
  known = {};
  free_shapes_.push_back(id);
  tables_.forget(id);
}

bool Cluster::admits(const KnownShape& shape, NodeId node) const {
  const auto id = index(nodes_[index(node)].node_class);
  const NodeClass& kind = classes_[id]->first;
  if (shape.reads_name) {
    return tolerates(shape.shape, kind.taints) && selects(shape.shape, tree_.node_name(node), kind.labels);
  }
  if (shape.admits.size() <= id) shape.admits.resize(classes_.size(), -1);
  std::int8_t& known = shape.admits[id];
  if (known < 0) {
    known = tolerates(shape.shape, kind.taints) && selects(shape.shape, "", kind.labels) ? 1 : 0;
  }
  return known == 1;
}

std::int32_t Cluster::room(const KnownShape& shape, NodeId id, bool as_empty) const {
  return room(shape, id, nodes_[index(id)], as_empty);
}

std::int32_t Cluster::room(const KnownShape& shape, NodeId id, const Node& node, bool as_empty) const {
  if (node.allocatable == kNone || node.state != NodeState::kUsable || !admits(shape, id)) return 0;
  const auto& has = rows_.entries(node.allocatable);
  std::int64_t most = kMostFit;
  std::size_t i = 0;
  for (const auto& [resource, units] : rows_.entries(shape.requests)) {
    if (units <= 0) continue;
    while (i < has.size() && has[i].resource < resource) ++i;
    if (i == has.size() || has[i].resource != resource) return 0;
    const __int128 left = has[i].units - (as_empty ? 0 : node.used[i]);
    if (left < units) return 0;
    most = std::min(most, static_cast<std::int64_t>(left) / units);
  }
  // Which ports a pod has is not kept: two pods of jobs that have some may have the same.
  if (shape.shape.host_ports) most = !as_empty && node.port_pods > 0 ? 0 : std::min<std::int64_t>(most, 1);
  return static_cast<std::int32_t>(most);
}

Status Cluster::answerable(const KnownShape& shape) const {
  if (!nodes_listed_) return fail(ErrorCode::kUnavailable, "the nodes are not listed yet");
  if (!pods_listed_) return fail(ErrorCode::kUnavailable, "the pods are not listed yet");
  for (const std::string& key : selector_keys(shape.shape)) {
    if (!listed_keys_.contains(key)) {
      return fail(ErrorCode::kUnavailable, fmt::format("the nodes are not listed yet with their label {}", key));
    }
  }
  return {};
}

Room Cluster::room_of(const KnownShape& shape, NodeId id) const {
  Room found{room(shape, id, false), 0, room(shape, id, true)};
  const Node& node = nodes_[index(id)];
  if (node.young_pods == 0 || found.capacity == found.whole) return found;
  Node without_young = node;
  for (std::size_t i = 0; i < node.young.size(); ++i) without_young.used[i] -= node.young[i];
  without_young.port_pods -= node.young_port_pods;
  found.young = room(shape, id, without_young, false) - found.capacity;
  return found;
}

Result<Rooms> Cluster::rooms(ShapeId id) {
  const KnownShape& shape = shapes_[index(id)];
  LOCKSTEP_CHECK_OK(answerable(shape));
  return tables_.of(id, tree_.node_limit(), [&](NodeId node) { return room_of(shape, node); });
}

Result<std::span<const std::int32_t>> Cluster::fit(ShapeId id) {
  LOCKSTEP_TRY(const Rooms all, rooms(id));
  return all.capacity;
}

Result<std::vector<std::int32_t>> Cluster::fit_empty(ShapeId id) const {
  const KnownShape& shape = shapes_[index(id)];
  LOCKSTEP_CHECK_OK(answerable(shape));
  std::vector<std::int32_t> fits(index(tree_.node_limit()));
  for (NodeId node = 0; node < tree_.node_limit(); ++node) fits[index(node)] = room(shape, node, true);
  return fits;
}

std::int32_t Cluster::fit_without(ShapeId shape, NodeId id, const std::function<bool(const PodRecord&)>& gone) const {
  Node node = nodes_[index(id)];
  each_pod(id, [&](const PodRecord& pod) {
    if (gone(pod)) count_on(node, pod, -1);
  });
  return room(shapes_[index(shape)], id, node, false);
}

bool Cluster::holds(NodeId id, ShapeId shape_id) const {
  const KnownShape& shape = shapes_[index(shape_id)];
  if (room(shape, id, true) == 0) return false;
  const Node& node = nodes_[index(id)];
  const auto& has = rows_.entries(node.allocatable);
  std::size_t i = 0;
  for (const auto& [resource, units] : rows_.entries(shape.requests)) {
    if (units <= 0) continue;
    while (has[i].resource < resource) ++i;  // room() found it
    if (node.used[i] > has[i].units) return false;
  }
  return !shape.shape.host_ports || node.port_pods <= 1;
}

std::vector<NodeAmount> Cluster::amounts(NodeId id) const {
  const Node& node = nodes_[index(id)];
  const auto& has = rows_.entries(node.allocatable);
  std::vector<NodeAmount> all;
  for (std::size_t i = 0; i < has.size(); ++i) {
    all.push_back({rows_.name(has[i].resource), has[i].units,
                   static_cast<std::int64_t>(std::min<__int128>(node.used[i], kMostUnits))});
  }
  std::sort(all.begin(), all.end(), [](const NodeAmount& a, const NodeAmount& b) { return a.name < b.name; });
  return all;
}

}  // namespace lockstep::placement
