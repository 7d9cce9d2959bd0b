#include "operator/placement/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "operator/placement/choice.h"
#include "operator/placement/mutation.h"

namespace lockstep::placement {
namespace {

Refusal invalid(std::string message) {
  return {Refusal::Reason::kInvalid, std::move(message), {}};
}

std::string level_name(const Tree& tree, int level) {
  if (level == kClusterLevel) return "cluster";
  return level == tree.levels() ? "node" : tree.profile().levels[static_cast<std::size_t>(level)].name;
}

// What is wrong with the parts that place() and shrink() share, or "".
std::string fault_of(const Tree& tree, const char* what, int pods, std::optional<int> required,
                     std::optional<int> preferred) {
  if (pods < 1 || pods > kMostPods) return fmt::format("{}: must be 1 to {}, is {}", what, kMostPods, pods);
  const auto unknown = [&](std::optional<int> level, int least) {
    return level && (*level < least || *level > tree.levels());
  };
  if (unknown(required, 0)) return fmt::format("required: the profile has no level {}", *required);
  if (unknown(preferred, kClusterLevel)) return fmt::format("preferred: the profile has no level {}", *preferred);
  if (required && preferred && *required > *preferred) {
    return fmt::format("required: {} is inside of the preferred level {}", level_name(tree, *required),
                       level_name(tree, *preferred));
  }
  return "";
}

// What is wrong with a list of pods by node, or "".
std::string fault_of(const Tree& tree, const char* what, const std::vector<std::pair<NodeId, int>>& pods) {
  for (const auto& [node, count] : pods) {
    if (node < 0 || node >= tree.node_limit() || !tree.node_in_use(node)) {
      return fmt::format("{}: there is no node {}", what, node);
    }
    if (count < 1 || count > kMostPods) {
      return fmt::format("{}: node {} has {} pods, must be 1 to {}", what, tree.node_name(node), count, kMostPods);
    }
  }
  return "";
}

int node_pods_of(int asked, std::span<const std::int32_t> capacity) {
  if (asked != 0 || capacity.empty()) return asked == 0 ? 1 : asked;
  return std::max(1, *std::max_element(capacity.begin(), capacity.end()));
}

// Brings the tables up to date; why not, or "".
std::string prepare(const Tree& tree, Tables& tables, const Rooms& rooms, int node_pods,
                    const std::optional<Objective>& objective) {
  const auto prices = Prices::make(objective ? *objective : default_objective(tree.levels()), tree.levels(),
                                   node_pods_of(node_pods, rooms.capacity));
  if (!prices) return prices.error().message;
  const Status followed = tables.follow(tree, rooms, *prices);
  return followed ? "" : followed.error().message;
}

// The innermost domain that has all nodes, and the node where there is one alone.
void surround(const Tree& tree, const NodePods& nodes, DomainId& domain, NodeId& node) {
  for (const auto& [other, pods] : nodes) {
    if (domain == kNone) {
      domain = tree.domain_of(other);
      node = other;
      continue;
    }
    if (other != node) node = kNone;
    DomainId from = tree.domain_of(other);
    while (tree.level(from) > tree.level(domain)) from = tree.parent(from);
    while (tree.level(domain) > tree.level(from)) domain = tree.parent(domain);
    for (; domain != from; domain = tree.parent(domain)) from = tree.parent(from);
  }
}

int level_of(const Tree& tree, DomainId domain, NodeId node) {
  return node != kNone ? tree.levels() : tree.level(domain);
}

// Finds the largest hole of a level. `largest` of a subtree bounds what its branches have.
void find_hole(View& view, const Reach& reach, Hole& hole) {
  std::int64_t most = view.of(kRoot).largest[static_cast<std::size_t>(std::max(hole.level, 0))];
  if (hole.level == kClusterLevel) most = view.of(kRoot).pods;
  // The bound may be of a domain that the request may not use: halve until a candidate turns up, then take the largest.
  for (std::int64_t least = most; least > 0; least /= 2) {
    const auto found = candidates(view, reach, hole.level, static_cast<int>(std::min<std::int64_t>(least, kMostPods)));
    if (found.empty()) continue;
    const auto largest = std::max_element(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
      return a.subtree->pods < b.subtree->pods;
    });
    const Tree& tree = view.tree();
    const bool node = hole.level == tree.levels();
    hole.pods = largest->subtree->pods;
    hole.path = tree.path(node ? tree.domain_of(largest->id) : largest->id);
    if (node) hole.path.push_back(tree.node_name(largest->id));
    return;
  }
}

Refusal refused(View& view, const Reach& reach, Refusal::Reason reason, std::string message) {
  Refusal refusal{reason, std::move(message), {}};
  for (int level = kClusterLevel; level <= view.tree().levels(); ++level) {
    Hole hole;
    hole.level = level;
    find_hole(view, reach, hole);
    refusal.largest.push_back(std::move(hole));
  }
  return refusal;
}

Placement decide(View& view, Reach reach, std::optional<int> preferred, int pods, const NodePods& survivors,
                 std::int64_t budget) {
  const Tree& tree = view.tree();
  const int outermost = reach.required.value_or(kClusterLevel);
  if (!survivors.empty()) {
    reach.survivors = true;
    reach.around = kNone;
    surround(tree, survivors, reach.around, reach.around_node);
    const int together = level_of(tree, reach.around, reach.around_node);
    const bool labelled = outermost == tree.levels() || tree.complete(survivors.front().first, outermost);
    if (together < outermost || !labelled) {
      const std::string name = level_name(tree, outermost);
      return refused(view, reach, Refusal::Reason::kSurvivorsApart,
                     fmt::format("the pods that run are not in one {}, which is required", name));
    }
  }
  int deepest = preferred.value_or(tree.levels());
  if (kMutation == Mutation::kForgetPreferred) deepest = tree.levels();
  if (kMutation == Mutation::kAnyLevel) deepest = outermost;
  for (int level = deepest; level >= outermost; --level) {
    const std::vector<Candidate> fit = candidates(view, reach, level, pods);
    if (fit.empty()) continue;
    Choice choice = choose(view, fit, level, pods, budget);
    Assignment assignment;
    assignment.score = view.subtrees().prices().in_units(cost_of(view, choice.nodes));
    assignment.approximate = choice.approximate;
    DomainId domain = reach.survivors ? reach.around : kNone;
    NodeId node = reach.around_node;
    surround(tree, choice.nodes, domain, node);
    assignment.level_spanned = level_of(tree, domain, node);
    assignment.nodes = std::move(choice.nodes);
    return assignment;
  }
  Refusal refusal = refused(view, reach, Refusal::Reason::kNoRoom, "");
  const std::int64_t most = refusal.largest[static_cast<std::size_t>(outermost + 1)].pods;
  const char* const what = pods == 1 ? "pod does" : "pods do";
  refusal.message = outermost == kClusterLevel
                        ? fmt::format("{} {} not fit: the cluster has room for {}", pods, what, most)
                        : fmt::format("{} {} not fit into one {}: the largest has room for {}", pods, what,
                                      level_name(tree, outermost), most);
  return refusal;
}

}  // namespace

Placement place(const Tree& tree, const Request& request) {
  Tables tables;
  return place(tree, tables, request);
}

Placement place(const Tree& tree, Tables& tables, const Request& request) {
  std::string fault = fault_of(tree, "pods", request.pods, request.required, request.preferred);
  if (fault.empty()) fault = fault_of(tree, "survivors", request.survivors);
  if (fault.empty()) {
    const Rooms rooms{request.capacity, request.young, request.whole};
    fault = prepare(tree, tables, rooms, request.node_pods, request.objective);
  }
  if (!fault.empty()) return invalid(std::move(fault));
  View view(tree, tables, false);
  std::map<NodeId, bool> covered;  // of the nodes that differ from the tables
  const bool pay = kMutation == Mutation::kSurvivorsPay;
  for (const auto& [node, pods] : request.survivors) {
    const std::int64_t free = tables.of_node(node)->free;
    view.mark(node, free, free, !pay);
    covered[node] = !pay;
  }
  for (const NodeId node : request.exclude) {
    if (kMutation == Mutation::kForgetExclude) break;
    if (node < 0 || node >= tree.node_limit() || !tree.node_in_use(node)) continue;
    view.mark(node, 0, 0, covered.contains(node) && covered[node]);
  }
  Reach reach;
  if (kMutation != Mutation::kForgetRequired) reach.required = request.required;
  return decide(view, reach, request.preferred, request.pods, request.survivors, request.budget);
}

Placement shrink(const Tree& tree, const ShrinkRequest& request) {
  Tables tables;
  return shrink(tree, tables, request);
}

Placement shrink(const Tree& tree, Tables& tables, const ShrinkRequest& request) {
  std::string fault = fault_of(tree, "keep", request.keep, request.required, request.preferred);
  if (fault.empty()) fault = fault_of(tree, "current", request.current);
  if (!fault.empty()) return invalid(std::move(fault));
  std::map<NodeId, std::int64_t> current;
  std::int64_t all = 0;
  for (const auto& [node, pods] : request.current) {
    current[node] += pods;
    all += pods;
  }
  if (request.keep > all) return invalid(fmt::format("keep: is {}, the gang has {} pods", request.keep, all));
  int node_pods = request.node_pods;
  if (node_pods == 0) {
    node_pods = node_pods_of(0, request.capacity);
    for (const auto& [node, pods] : current) {
      const auto index = static_cast<std::size_t>(node);
      const std::int64_t free = index < request.capacity.size() ? request.capacity[index] : 0;
      node_pods = static_cast<int>(std::clamp<std::int64_t>(free + pods, node_pods, kMostPodsOfANode));
    }
  }
  fault = prepare(tree, tables, {request.capacity, request.young, request.whole}, node_pods, request.objective);
  if (!fault.empty()) return invalid(std::move(fault));
  View view(tree, tables, true);
  for (const auto& [node, pods] : current) {
    const std::int64_t free = tables.of_node(node)->free + pods;
    if (free > node_pods) {
      return invalid(
          fmt::format("current: node {} has room for {} pods, node_pods is {}", tree.node_name(node), free, node_pods));
    }
    view.mark(node, pods, free, false);
  }
  Reach reach;
  reach.required = request.required;
  return decide(view, reach, request.preferred, request.keep, {}, request.budget);
}

}  // namespace lockstep::placement
