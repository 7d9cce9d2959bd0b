#include "operator/placement/shortage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lockstep::placement {
namespace {

using Outcome = Verdict::Outcome;
using RoomByNode = std::vector<std::int32_t>;  // by NodeId

std::size_t number(std::int32_t id) {
  return static_cast<std::size_t>(id);
}

// The decision for rooms that already respect `exclusive` and closed nodes.
Placement decision(const Tree& tree, const Search& search, const RoomByNode& rooms, int node_pods) {
  Request request;
  request.node_pods = search.exclusive ? 0 : node_pods;
  request.pods = search.pods;
  request.required = search.required;
  request.preferred = search.preferred;
  request.capacity = rooms;
  request.survivors = search.survivors;
  return place(tree, request);
}

RoomByNode rooms_without(const Cluster& cluster, const Search& search,
                         const std::function<bool(const PodRecord&)>& gone) {
  RoomByNode rooms(number(cluster.tree().node_limit()));
  for (NodeId node = 0; node < cluster.tree().node_limit(); ++node) {
    if (cluster.tree().node_in_use(node)) rooms[number(node)] = room_without(cluster, search, node, gone);
  }
  return rooms;
}

// As ClusterView::place() takes it, so that both come to the same nodes.
int most_on_a_node(const Cluster& cluster, ShapeId shape) {
  const auto empty = cluster.fit_empty(shape);
  return empty && !empty->empty() ? std::max(1, *std::max_element(empty->begin(), empty->end())) : 1;
}

bool nothing(const PodRecord&) {
  return false;
}

bool fits(const Placement& placement) {
  return std::holds_alternative<Assignment>(placement);
}

std::string words_of(const Taint& taint) {
  return taint.value.empty() ? fmt::format("{}:{}", taint.key, taint.effect)
                             : fmt::format("{}={}:{}", taint.key, taint.value, taint.effect);
}

// Why no pod of the search may use the node; none where it may.
std::optional<std::pair<Bar, std::string>> bar_of(const Cluster& cluster, const Search& search, NodeId node) {
  const Tree& tree = cluster.tree();
  const Shape& shape = cluster.shape(search.shape);
  switch (cluster.state(node)) {
    case NodeState::kOutOfService:
      return std::pair(Bar::kOutOfService, std::string());
    case NodeState::kNotReady:
      return std::pair(Bar::kNotReady, std::string());
    case NodeState::kSick:
      return std::pair(Bar::kSick, cluster.sickness(node));
    case NodeState::kCordoned:
      return std::pair(Bar::kCordoned, std::string());
    case NodeState::kUsable:
      break;
  }
  for (const Taint& taint : cluster.taints(node)) {
    if (!tolerates(shape, {taint})) return std::pair(Bar::kTaint, words_of(taint));
  }
  const api::Labels& labels = cluster.labels(node);
  for (const auto& [key, value] : shape.node_selector) {
    const auto label = labels.find(key);
    if (label == labels.end() || label->second != value) {
      return std::pair(Bar::kSelector, fmt::format("{}={}", key, value));
    }
  }
  if (!selects(shape, tree.node_name(node), labels)) return std::pair(Bar::kSelector, std::string(kNodeAffinity));
  for (int level = 0; search.required && level <= std::min(*search.required, tree.levels() - 1); ++level) {
    if (!tree.complete(node, level)) return std::pair(Bar::kLabel, tree.profile().levels[number(level)].label);
  }
  const auto is_here = [&](const auto& survivor) { return survivor.first == node; };
  if (std::find(search.closed.begin(), search.closed.end(), node) != search.closed.end()) {
    return std::pair(Bar::kClosed, std::string());
  }
  if (search.exclusive && std::any_of(search.survivors.begin(), search.survivors.end(), is_here)) {
    return std::pair(Bar::kShared, std::string());
  }
  return std::nullopt;
}

// Counts what one node that is not barred has too little of; false where it has enough of everything.
bool count_shortages(const Cluster& cluster, const Search& search, NodeId node, std::map<std::string, Shortage>& all) {
  const std::vector<NodeAmount> amounts = cluster.amounts(node);
  bool is_short = false;
  for (const Amount& asked : cluster.shape(search.shape).requests) {
    const auto has = std::find_if(amounts.begin(), amounts.end(),
                                  [&](const NodeAmount& amount) { return amount.name == asked.name; });
    const std::int64_t whole = has == amounts.end() ? 0 : has->allocatable;
    const std::int64_t free = has == amounts.end() ? 0 : std::max<std::int64_t>(0, whole - has->used);
    Shortage& shortage = all.try_emplace(asked.name, Shortage{asked.name, asked.units}).first->second;
    if (free >= asked.units) continue;
    is_short = true;
    shortage.most = std::max(shortage.most, free);
    ++shortage.nodes;
    if (whole < asked.units) ++shortage.never;
  }
  return is_short;
}

// Judges each node by itself.
void judge_nodes(const Cluster& cluster, const Search& search, const RoomByNode& rooms, Verdict& verdict) {
  std::map<std::pair<Bar, std::string>, int> barred;
  std::map<std::string, Shortage> shortages;
  for (NodeId node = 0; node < cluster.tree().node_limit(); ++node) {
    if (!cluster.tree().node_in_use(node)) continue;
    ++verdict.nodes;
    if (rooms[number(node)] > 0) ++verdict.open;
    if (auto bar = bar_of(cluster, search, node)) {
      ++barred[*std::move(bar)];
    } else if (!count_shortages(cluster, search, node, shortages) && rooms[number(node)] == 0) {
      ++barred[{Bar::kHostPort, ""}];
    }
  }
  for (const auto& [reason, nodes] : barred) verdict.barred.push_back({reason.first, reason.second, nodes});
  for (const auto& [name, shortage] : shortages) {
    if (shortage.nodes > 0) verdict.shortages.push_back(shortage);
  }
  std::stable_sort(verdict.shortages.begin(), verdict.shortages.end(),
                   [](const Shortage& one, const Shortage& other) { return one.nodes > other.nodes; });
}

// The terminating pods on nodes that take more once they are gone.
int terminating_in_the_way(const Cluster& cluster, const Assignment& assignment, const RoomByNode& rooms) {
  int pods = 0;
  for (const auto& [node, assigned] : assignment.nodes) {
    if (rooms[number(node)] >= assigned) continue;
    cluster.each_pod(node, [&](const PodRecord& pod) { pods += pod.is(kTerminating) ? 1 : 0; });
  }
  return pods;
}

// The hole of the required level.
const Hole* required_hole(const Verdict& verdict, const std::vector<Hole>& holes) {
  const auto index = number(verdict.required.value_or(kClusterLevel) + 1);
  return index < holes.size() ? &holes[index] : nullptr;
}

// The holes, whether or not the pods fit: those of a refusal of more pods than there are rooms.
std::vector<Hole> holes_of(const Tree& tree, Search search, const RoomByNode& rooms, int node_pods) {
  search.pods = kMostPods;
  Placement placement = decision(tree, search, rooms, node_pods);
  if (auto* refusal = std::get_if<Refusal>(&placement)) return std::move(refusal->largest);
  return {};
}

}  // namespace

Verdict explain_refusal(Cluster& cluster, const Search& search, const Uid& self, const KnownJobs& jobs) {
  const Tree& tree = cluster.tree();
  Verdict verdict;
  verdict.pods = search.pods;
  verdict.required = search.required;
  if (const auto known = cluster.fit(search.shape); !known) {
    verdict.sentence = known.error().message;
    return verdict;
  }
  const RoomByNode rooms = rooms_without(cluster, search, nothing);
  const int node_pods = most_on_a_node(cluster, search.shape);
  Placement now = decision(tree, search, rooms, node_pods);
  if (auto* assignment = std::get_if<Assignment>(&now)) {
    verdict.outcome = Outcome::kFits;
    verdict.assignment = std::move(*assignment);
    if (auto placed = ClusterView(cluster).place(search)) {  // as the placer would
      verdict.assignment = *std::move(placed);
      verdict.spread = search.spread && search.pods > 1;
    }
    verdict.sentence = sentence_of(tree, verdict);
    return verdict;
  }
  const Refusal& refusal = std::get<Refusal>(now);
  if (refusal.reason == Refusal::Reason::kInvalid) {
    verdict.outcome = Outcome::kInvalid;
    verdict.sentence = refusal.message;
    return verdict;
  }
  const bool apart = refusal.reason == Refusal::Reason::kSurvivorsApart;
  judge_nodes(cluster, search, rooms, verdict);
  const RoomByNode empty = rooms_without(
      cluster, search, [&](const PodRecord& pod) { return self.is_zero() || pod.job != self || pod.is(kTerminating); });
  Placement ever = decision(tree, search, empty, node_pods);
  verdict.largest = refusal.largest;
  verdict.possible = holes_of(tree, search, empty, node_pods);
  if (apart) {
    verdict.outcome = Outcome::kSurvivorsApart;
  } else if (std::all_of(empty.begin(), empty.end(), [](std::int32_t pods) { return pods == 0; })) {
    verdict.outcome = Outcome::kNoNode;
  } else {
    verdict.outcome = fits(ever) ? Outcome::kNoRoom : Outcome::kTooLarge;
  }
  if (const Hole* hole = required_hole(verdict, verdict.largest)) {
    verdict.fit_now = static_cast<int>(std::min<std::int64_t>(hole->pods, search.pods));
  }
  if (search.required) {
    Search anywhere = search;
    anywhere.required.reset();
    const Placement placed = decision(tree, anywhere, rooms_without(cluster, anywhere, nothing), node_pods);
    if (const auto* assignment = std::get_if<Assignment>(&placed)) {
      verdict.spans_if_preferred = assignment->level_spanned;
    }
  }
  if (search.exclusive) {
    Search shared = search;
    shared.exclusive = false;
    verdict.fits_shared = fits(decision(tree, shared, rooms_without(cluster, shared, nothing), node_pods));
  }
  if (verdict.outcome == Outcome::kNoRoom) {
    const RoomByNode soon = rooms_without(cluster, search, [](const PodRecord& pod) { return pod.is(kTerminating); });
    const Placement later = decision(tree, search, soon, node_pods);
    if (const auto* assignment = std::get_if<Assignment>(&later)) {
      verdict.terminating = terminating_in_the_way(cluster, *assignment, rooms);
    } else {
      verdict.endings = jobs_to_end(cluster, search, self, jobs);
    }
  }
  verdict.sentence = sentence_of(tree, verdict);
  return verdict;
}

}  // namespace lockstep::placement
