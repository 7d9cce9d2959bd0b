#include "tests/operator/placement/brute_force.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace lockstep::placement {
namespace {

// Costs are whole numbers of a fine unit in the code under test, and real numbers here.
constexpr double kTolerance = 1e-3;

using Path = std::vector<std::string>;

// The path of a node down to a level, itself included at the level of nodes.
Path path_of(const Instance& instance, const TestNode& node, int level) {
  Path path;
  for (int i = 0; i <= level && i < instance.levels; ++i) {
    const std::string& label = node.labels[static_cast<std::size_t>(i)];
    path.push_back(label.empty() ? "private of " + node.name : "=" + label);
  }
  if (level == instance.levels) path.push_back("node " + node.name);
  return path;
}

// Whether the node has the labels that the required level asks for, from the outermost to `level`.
bool labelled(const Instance& instance, const TestNode& node, int level) {
  if (!instance.required || *instance.required >= instance.levels) return true;
  for (int i = 0; i <= std::min(level, *instance.required); ++i) {
    if (node.labels[static_cast<std::size_t>(i)].empty()) return false;
  }
  return true;
}

int room(const TestNode& node, bool shrinks) {
  if (shrinks) return node.survivors;
  return node.excluded ? 0 : node.capacity;
}

}  // namespace

Instance random_instance(std::mt19937_64& random) {
  const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<std::uint64_t>(below)); };
  Instance instance;
  instance.levels = pick(6);
  const int nodes = 1 + pick(12);
  const int fan_out = 1 + pick(3), unlabelled = pick(3) == 0 ? 8 : 1000;
  instance.node_pods = 1 + pick(3);
  const bool alike = pick(3) == 0;  // equal nodes, so that subtrees are shared
  for (int i = 0; i < nodes; ++i) {
    TestNode node;
    node.name = fmt::format("n{:02}", i);
    for (int level = 0; level < instance.levels; ++level) {
      node.labels.push_back(pick(unlabelled) == 0 ? "" : std::to_string(pick(fan_out)));
    }
    node.capacity = alike ? instance.node_pods : pick(instance.node_pods + 1);
    if (pick(6) == 0) node.survivors = 1 + pick(2);
    node.excluded = pick(8) == 0;
    instance.nodes.push_back(node);
  }
  if (pick(2) == 0) {
    for (TestNode& node : instance.nodes) node.survivors = 0;
  }
  instance.pods = 1 + pick(6);
  if (pick(2) == 0) instance.required = pick(instance.levels + 1);
  if (pick(2) == 0) {
    const int outermost = instance.required.value_or(0);
    instance.preferred = outermost + pick(instance.levels + 1 - outermost);
  }
  const double spans[] = {0, 1, 3, 10, 100}, holes[] = {0, 0.1, 1, 3};
  const int powers[] = {1, 2, 3, 8};
  for (int level = 0; level <= instance.levels; ++level) {
    instance.objective.span.push_back(spans[pick(5)]);
    instance.objective.hole.push_back(holes[pick(4)]);
    instance.objective.power.push_back(powers[pick(4)]);
  }
  const double young[] = {0, 1.0 / 32, 0.3, 1};
  instance.objective.young = young[pick(4)];
  const bool has_young = pick(2) == 0, is_uniform = pick(2) == 0;
  for (TestNode& node : instance.nodes) {
    if (has_young) node.young = pick(instance.node_pods - node.capacity + 1);
    const int least = node.capacity + node.young;
    node.whole = is_uniform ? instance.node_pods : least + pick(instance.node_pods - least + 1);
  }
  instance.objective.lambda = pick(4) == 0 ? 0 : pick(7);
  return instance;
}

Built built(const Instance& instance, const std::vector<std::size_t>& order) {
  Profile profile{"test", {}};
  for (int level = 0; level < instance.levels; ++level) {
    profile.levels.push_back({fmt::format("level{}", level), fmt::format("example.com/{}", level)});
  }
  Built built{Tree(profile), {}, {}, {}, {}};
  for (std::size_t i = 0; i < instance.nodes.size(); ++i) {
    const TestNode& node = instance.nodes[order.empty() ? i : order[i]];
    api::Labels labels;
    for (std::size_t level = 0; level < node.labels.size(); ++level) {
      if (!node.labels[level].empty()) labels[profile.levels[level].label] = node.labels[level];
    }
    const NodeId id = built.tree.put(node.name, labels);
    built.capacity.resize(static_cast<std::size_t>(built.tree.node_limit()));
    built.young.resize(built.capacity.size());
    built.capacity[static_cast<std::size_t>(id)] = node.capacity;
    built.young[static_cast<std::size_t>(id)] = node.young;
    built.whole.resize(built.capacity.size());
    built.whole[static_cast<std::size_t>(id)] = node.whole;
    if (node.survivors > 0) built.request.survivors.emplace_back(id, node.survivors);
    if (node.excluded) built.request.exclude.push_back(id);
  }
  built.request.pods = instance.pods;
  built.request.required = instance.required;
  built.request.preferred = instance.preferred;
  built.request.capacity = built.capacity;  // a moved vector keeps its elements where they are
  built.request.young = built.young;
  built.request.whole = built.whole;
  built.request.node_pods = instance.node_pods;
  built.request.objective = instance.objective;
  return built;
}

ShrinkRequest shrinking(const Instance& instance, const Built& built) {
  ShrinkRequest request;
  request.keep = instance.pods;
  request.current = built.request.survivors;
  request.required = instance.required;
  request.preferred = instance.preferred;
  request.capacity = built.capacity;
  request.young = built.young;
  request.whole = built.whole;
  request.node_pods = instance.node_pods + 2;
  request.objective = instance.objective;
  return request;
}

Oracle::Oracle(const Instance& instance, bool shrinks) : instance_(instance), shrinks_(shrinks) {
  for (int level = 0; level <= instance.levels; ++level) {
    std::map<Path, std::size_t> ids;
    std::vector<Domain>& domains = domains_.emplace_back();
    std::vector<std::size_t>& of = domain_of_.emplace_back();
    for (const TestNode& node : instance.nodes) {
      const auto [id, added] = ids.try_emplace(path_of(instance, node, level), domains.size());
      if (added) domains.emplace_back();
      Domain& domain = domains[id->second];
      domain.free += shrinks ? node.capacity + node.survivors : room(node, false);
      domain.whole += level == instance.levels ? instance.node_pods + (shrinks ? 2 : 0) : node.whole;
      // Young pods of its own, and those where it may not go, do not count.
      if (level < instance.levels && !shrinks && node.survivors == 0 && !node.excluded) domain.young += node.young;
      domain.covered |= !shrinks && node.survivors > 0;
      of.push_back(id->second);
    }
  }
  for (const TestNode& node : instance.nodes) labelled_.push_back(labelled(instance, node, instance.levels));
}

Judged Oracle::judge(const std::vector<int>& pods) const {
  Judged judged;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < instance_.nodes.size(); ++i) {
    const TestNode& node = instance_.nodes[i];
    if (pods[i] > room(node, shrinks_)) return judged;
    if (pods[i] == 0 && (shrinks_ || node.survivors == 0)) continue;
    if (!labelled_[i]) return judged;
    chosen.push_back(i);
  }
  const auto together = [&](int level) {
    const std::vector<std::size_t>& of = domain_of_[static_cast<std::size_t>(level)];
    return std::all_of(chosen.begin(), chosen.end(), [&](std::size_t node) { return of[node] == of[chosen[0]]; });
  };
  while (judged.level < instance_.levels && together(judged.level + 1)) ++judged.level;
  if (judged.level < instance_.required.value_or(kClusterLevel)) return judged;
  judged.allowed = true;
  judged.level_capped = std::min(judged.level, instance_.preferred.value_or(instance_.levels));
  const double node_pods = instance_.node_pods + (shrinks_ ? 2 : 0);
  for (std::size_t level = 0; level < domains_.size(); ++level) {
    std::vector<int> taken(domains_[level].size(), 0);
    for (std::size_t i = 0; i < pods.size(); ++i) taken[domain_of_[level][i]] += pods[i];
    for (std::size_t id = 0; id < taken.size(); ++id) {
      if (taken[id] == 0) continue;
      const Domain& domain = domains_[level][id];
      if (!domain.covered) judged.cost += instance_.objective.span[level];
      const double hole = domain.free + instance_.objective.young * domain.young;
      const double size = std::max({domain.whole, domain.free + domain.young, 1});
      const auto phi = [&](double c) {
        return -size / node_pods * std::pow(c / size, instance_.objective.power[level]);
      };
      judged.cost += instance_.objective.lambda * instance_.objective.hole[level] * (phi(hole - taken[id]) - phi(hole));
    }
  }
  return judged;
}

std::optional<Judged> Oracle::best() const {
  std::optional<Judged> best;
  std::vector<int> pods(instance_.nodes.size(), 0);
  const std::function<void(std::size_t, int)> try_all = [&](std::size_t node, int left) {
    if (left == 0) {
      const Judged judged = judge(pods);
      if (!judged.allowed) return;
      if (!best || judged.level_capped > best->level_capped ||
          (judged.level_capped == best->level_capped && judged.cost < best->cost)) {
        best = judged;
      }
      return;
    }
    if (node == pods.size()) return;
    for (int take = 0; take <= std::min(left, room(instance_.nodes[node], shrinks_)); ++take) {
      pods[node] = take;
      try_all(node + 1, left - take);
    }
    pods[node] = 0;
  };
  try_all(0, instance_.pods);
  return best;
}

int largest_hole(const Instance& instance, int level) {
  std::map<Path, int> rooms;
  for (const TestNode& node : instance.nodes) {
    if (!labelled(instance, node, level)) continue;
    rooms[path_of(instance, node, level)] += room(node, false);
  }
  int largest = 0;
  for (const auto& [path, pods] : rooms) {
    const bool has_all = std::all_of(instance.nodes.begin(), instance.nodes.end(), [&, &path = path](const auto& node) {
      return node.survivors == 0 || path_of(instance, node, level) == path;
    });
    if (has_all) largest = std::max(largest, pods);
  }
  return largest;
}

std::string difference(const Instance& instance, const Placement& placement, bool shrinks) {
  const Oracle oracle(instance, shrinks);
  const std::optional<Judged> expected = oracle.best();
  if (const auto* refusal = std::get_if<Refusal>(&placement)) {
    return expected ? "refused: " + refusal->message : "";
  }
  const Assignment& assignment = std::get<Assignment>(placement);
  if (!expected) return "placed what does not fit";
  Built by_name = built(instance);
  std::vector<int> pods(instance.nodes.size(), 0);
  int sum = 0;
  for (const auto& [node, count] : assignment.nodes) {
    const std::string& name = by_name.tree.node_name(node);
    for (std::size_t i = 0; i < instance.nodes.size(); ++i) {
      if (instance.nodes[i].name == name) pods[i] += count;
    }
    sum += count;
  }
  if (sum != instance.pods) return fmt::format("placed {} pods", sum);
  const Judged judged = oracle.judge(pods);
  if (!judged.allowed) return fmt::format("placed {} where it is not allowed", fmt::join(pods, " "));
  if (judged.level_capped != expected->level_capped) {
    return fmt::format("spans level {} instead of {}", judged.level_capped, expected->level_capped);
  }
  if (judged.cost > expected->cost + kTolerance) {
    return fmt::format("{} costs {} instead of {}", fmt::join(pods, " "), judged.cost, expected->cost);
  }
  if (std::abs(assignment.score - judged.cost) > kTolerance) {
    return fmt::format("says score {} instead of {}", assignment.score, judged.cost);
  }
  if (assignment.level_spanned != judged.level) {
    return fmt::format("says level {} instead of {}", assignment.level_spanned, judged.level);
  }
  return assignment.approximate ? "says that it is approximate" : "";
}

std::string described(const Instance& instance) {
  std::string text =
      fmt::format("{} pods, required {}, preferred {}, lambda {}, young {}, span {}, hole {}, power {}\n",
                  instance.pods, instance.required.value_or(-1), instance.preferred.value_or(-1),
                  instance.objective.lambda, instance.objective.young, fmt::join(instance.objective.span, " "),
                  fmt::join(instance.objective.hole, " "), fmt::join(instance.objective.power, " "));
  for (const TestNode& node : instance.nodes) {
    text +=
        fmt::format("  {} [{}] capacity {} young {} whole {} survivors {}{}\n", node.name, fmt::join(node.labels, "/"),
                    node.capacity, node.young, node.whole, node.survivors, node.excluded ? " excluded" : "");
  }
  return text;
}

}  // namespace lockstep::placement
