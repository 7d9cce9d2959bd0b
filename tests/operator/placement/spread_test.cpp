// Spreading: against one pod after the other, each to the node that has fewest.
#include "operator/placement/spread.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/sanitizer.h"

namespace lockstep::placement {
namespace {

const Profile kTwoLevels{"test", {{"block", "b"}, {"rack", "r"}}};

struct Case {
  Tree tree{kTwoLevels};
  std::vector<std::int32_t> room;
  std::vector<std::pair<NodeId, int>> survivors;
  int pods = 1;
};

Case random_case(std::mt19937& random) {
  const auto below = [&](int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); };
  Case made;
  for (int node = 0, nodes = below(8) + 1; node < nodes; ++node) {
    api::Labels labels{{"b", fmt::format("b{}", below(2))}, {"r", fmt::format("r{}", below(2))}};
    if (below(8) == 0) labels.erase("r");
    made.tree.put(fmt::format("n{}", node), labels);
  }
  for (NodeId node = 0; node < made.tree.node_limit(); ++node) {
    made.room.push_back(below(5));
    if (below(4) == 0) made.survivors.emplace_back(node, below(3) + 1);
  }
  made.pods = below(12) + 1;
  return made;
}

// Pods that nodes of `group` have in the end, the fullest first; empty: no room.
std::vector<int> one_by_one(const Case& of, const std::vector<NodeId>& group) {
  std::map<NodeId, int> has, added;
  for (const auto& [node, pods] : of.survivors) has[node] = pods;
  for (int pod = 0; pod < of.pods; ++pod) {
    NodeId best = kNone;
    for (const NodeId node : group) {
      if (added[node] == of.room[static_cast<std::size_t>(node)]) continue;
      if (best == kNone || has[node] + added[node] < has[best] + added[best]) best = node;
    }
    if (best == kNone) return {};
    ++added[best];
  }
  std::vector<int> pods;
  for (const NodeId node : group) pods.push_back(has[node] + added[node]);
  std::sort(pods.rbegin(), pods.rend());
  return pods;
}

TEST(Spread, is_as_even_as_one_pod_after_the_other) {
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < sanitizer::cases(2000); ++i) {
    const Case given = random_case(random);
    std::vector<NodeId> all;
    for (NodeId node = 0; node < given.tree.node_limit(); ++node) all.push_back(node);
    const auto expected = one_by_one(given, all);
    const auto found = spread(given.tree, given.room, given.pods, std::nullopt, given.survivors);
    ASSERT_EQ(found.has_value(), !expected.empty());
    if (!found) continue;
    std::map<NodeId, int> has;
    for (const auto& [node, pods] : given.survivors) has[node] = pods;
    int placed = 0;
    for (const auto& [node, pods] : *found) {
      ASSERT_LE(pods, given.room[static_cast<std::size_t>(node)]);
      ASSERT_GT(pods, 0);
      has[node] += pods;
      placed += pods;
    }
    ASSERT_EQ(placed, given.pods);
    std::vector<int> pods;
    for (const NodeId node : all) pods.push_back(has[node]);
    std::sort(pods.rbegin(), pods.rend());
    ASSERT_EQ(pods, expected);
  }
}

TEST(Spread, stays_in_one_domain_of_the_required_level_with_all_survivors) {
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < sanitizer::cases(2000); ++i) {
    const Case given = random_case(random);
    const int level = std::uniform_int_distribution<int>(0, 2)(random);
    const auto domain = [&](NodeId node) {
      return level == given.tree.levels() ? node : given.tree.domain_of(node, level);
    };
    // The least that any domain has on its fullest new node; 0: none has room.
    std::map<DomainId, std::vector<NodeId>> groups;
    for (NodeId node = 0; node < given.tree.node_limit(); ++node) {
      if (level == given.tree.levels() || given.tree.complete(node, level)) groups[domain(node)].push_back(node);
    }
    const auto has_all = [&](DomainId id) {
      return std::all_of(given.survivors.begin(), given.survivors.end(),
                         [&](const auto& survivor) { return domain(survivor.first) == id; });
    };
    bool possible = false;
    for (const auto& [id, nodes] : groups) possible |= has_all(id) && !one_by_one(given, nodes).empty();
    const auto found = spread(given.tree, given.room, given.pods, level, given.survivors);
    ASSERT_EQ(found.has_value(), possible);
    if (!found) continue;
    for (const auto& [node, pods] : *found) {
      ASSERT_EQ(domain(node), domain(found->front().first));
      ASSERT_TRUE(has_all(domain(node)));
    }
  }
}

}  // namespace
}  // namespace lockstep::placement
