// The dynamic programme against a plain one on trees that are too large for brute force. The plain one has no shared
// tables, no closed form, no bounds, no truncation, and costs as real numbers.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tests/operator/placement/brute_force.h"

namespace lockstep::placement {
namespace {

class PlainProgramme {
 public:
  explicit PlainProgramme(const Instance& instance) : instance_(instance) {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < instance.nodes.size(); ++i) all.push_back(i);
    visit(kClusterLevel, all, 0);
  }

  // The deepest level up to `preferred` that has room, and the lowest cost there.
  std::optional<std::pair<int, double>> best() const {
    for (int level = instance_.preferred.value_or(instance_.levels);
         level >= instance_.required.value_or(kClusterLevel); --level) {
      const auto found = best_.find(level);
      if (found != best_.end()) return *found;
    }
    return std::nullopt;
  }

 private:
  using Nodes = std::vector<std::size_t>;

  double own(int level, const Nodes& nodes, int taken) const {
    if (level == kClusterLevel || taken == 0) return 0;
    int free = 0, young = 0, whole = 0;
    bool covered = false;
    for (const std::size_t i : nodes) {
      free += room(i);
      whole += level == instance_.levels ? instance_.node_pods : instance_.nodes[i].whole;
      const bool is_marked = instance_.nodes[i].survivors > 0 || instance_.nodes[i].excluded;
      if (level < instance_.levels && !is_marked) young += instance_.nodes[i].young;
      covered = covered || instance_.nodes[i].survivors > 0;
    }
    const auto index = static_cast<std::size_t>(level);
    const double size = std::max({whole, free + young, 1});
    const auto phi = [&](double pods) {
      return size / instance_.node_pods * std::pow(pods / size, instance_.objective.power[index]);
    };
    const double hole = free + instance_.objective.young * young;
    return (covered ? 0 : instance_.objective.span[index]) +
           instance_.objective.lambda * instance_.objective.hole[index] * (phi(hole) - phi(hole - taken));
  }

  int room(std::size_t node) const { return instance_.nodes[node].excluded ? 0 : instance_.nodes[node].capacity; }

  // The costs of 0, 1, ... pods in the domain, after noting it as a candidate. `above`: of the domains above it.
  std::vector<double> visit(int level, const Nodes& nodes, double above) {
    std::vector<double> costs{0};
    if (level == instance_.levels) {
      costs.assign(static_cast<std::size_t>(room(nodes[0])) + 1, 0);
    } else {
      std::map<std::string, Nodes> children;
      for (const std::size_t i : nodes) {
        const TestNode& node = instance_.nodes[i];
        children[level + 1 == instance_.levels ? node.name : node.labels[static_cast<std::size_t>(level) + 1]]
            .push_back(i);
      }
      const double below = above + own(level, nodes, instance_.pods);
      for (const auto& [name, child] : children) costs = both(costs, visit(level + 1, child, below));
    }
    for (std::size_t j = 1; j < costs.size(); ++j) costs[j] += own(level, nodes, static_cast<int>(j));
    const auto pods = static_cast<std::size_t>(instance_.pods);
    if (pods < costs.size() && has_survivors(nodes)) {
      const auto [best, added] = best_.try_emplace(level, above + costs[pods]);
      best->second = std::min(best->second, above + costs[pods]);
    }
    return costs;
  }

  bool has_survivors(const Nodes& nodes) const {
    const auto have = [&](std::size_t i) { return instance_.nodes[i].survivors > 0; };
    std::ptrdiff_t all = 0;
    for (const TestNode& node : instance_.nodes) all += node.survivors > 0;
    return std::count_if(nodes.begin(), nodes.end(), have) == all;
  }

  static std::vector<double> both(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> out(a.size() + b.size() - 1, std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = 0; j < b.size(); ++j) out[i + j] = std::min(out[i + j], a[i] + b[j]);
    }
    return out;
  }

  const Instance& instance_;
  std::map<int, double> best_;  // by level
};

Instance large_instance(std::mt19937_64& random) {
  const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<std::uint64_t>(below)); };
  Instance instance;
  instance.levels = pick(5);
  instance.node_pods = 1 + pick(4);
  const int fan_out = 1 + pick(5), nodes = 40 + pick(120), load = pick(100);
  const bool anchored = pick(2) == 0;
  for (int i = 0; i < nodes; ++i) {
    TestNode node;
    node.name = fmt::format("n{:03}", i);
    for (int level = 0; level < instance.levels; ++level) node.labels.push_back(std::to_string(pick(fan_out)));
    node.capacity = pick(100) < load ? pick(instance.node_pods + 1) : instance.node_pods;
    if (pick(3) == 0) node.young = pick(instance.node_pods - node.capacity + 1);
    const int least = node.capacity + node.young;
    node.whole = pick(4) > 0 ? instance.node_pods : least + pick(instance.node_pods - least + 1);
    node.survivors = anchored && pick(nodes) < 3 ? 1 : 0;
    node.excluded = pick(20) == 0;
    instance.nodes.push_back(node);
  }
  instance.pods = 1 + pick(pick(2) == 0 ? 20 : nodes * instance.node_pods);
  if (pick(3) == 0) instance.required = pick(instance.levels + 1);
  if (pick(3) == 0) {
    const int outermost = instance.required.value_or(0);
    instance.preferred = outermost + pick(instance.levels + 1 - outermost);
  }
  instance.objective = default_objective(instance.levels);
  for (double& weight : instance.objective.hole) weight *= pick(4);
  return instance;
}

TEST(PlaceScale, equals_a_plain_programme_on_larger_trees) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  int placed = 0;
  for (int i = 0; i < 400; ++i) {
    const Instance instance = large_instance(random);
    const Built b = built(instance);
    const Placement placement = place(b.tree, b.request);
    const auto expected = PlainProgramme(instance).best();
    const auto* assignment = std::get_if<Assignment>(&placement);
    ASSERT_EQ(assignment != nullptr, expected.has_value()) << described(instance);
    if (!assignment) continue;
    ++placed;
    std::vector<int> pods(instance.nodes.size(), 0);
    int sum = 0;
    for (const auto& [node, count] : assignment->nodes) {
      pods[static_cast<std::size_t>(std::stoi(b.tree.node_name(node).substr(1)))] = count;
      sum += count;
    }
    ASSERT_EQ(sum, instance.pods);
    const Judged judged = Oracle(instance, false).judge(pods);
    // Of each domain and node that is used, by half a unit of at least 1/512.
    const double rounding = 1e-3 * instance.pods * (instance.levels + 1);
    ASSERT_TRUE(judged.allowed) << described(instance);
    ASSERT_EQ(judged.level_capped, expected->first) << described(instance);
    ASSERT_NEAR(judged.cost, expected->second, rounding) << described(instance);
    ASSERT_NEAR(assignment->score, judged.cost, rounding) << described(instance);
    ASSERT_FALSE(assignment->approximate);
  }
  EXPECT_GT(placed, 100);
}

}  // namespace
}  // namespace lockstep::placement
