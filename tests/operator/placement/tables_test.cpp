#include "operator/placement/tables.h"

#include <gtest/gtest.h>

#include "tests/operator/placement/brute_force.h"
#include "tests/operator/placement/place_history.h"

namespace lockstep::placement {
namespace {

TEST(Tables, decide_as_if_they_were_computed_afresh) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (int history = 0; history < 100; ++history) ASSERT_EQ(history_difference(random, 200), "") << "seed " << seed;
}

class TablesOfRacks : public testing::Test {
 protected:
  TablesOfRacks() : tree({"test", {{"block", "b"}, {"rack", "r"}}}) {
    for (int i = 0; i < 64; ++i) {
      tree.put("n" + std::to_string(100 + i), {{"b", std::to_string(i / 16)}, {"r", std::to_string(i / 4)}});
    }
    capacity.assign(64, 1);
    EXPECT_TRUE(tables.follow(tree, {capacity, {}, {}}, prices()).ok());
  }

  static Prices prices() { return Prices::make(default_objective(2), 2, 1).value(); }
  const Subtree* at(const std::string& node, int level) {
    return tables.of(tree, tree.domain_of(tree.find(node), level)).get();
  }

  Tree tree;
  std::vector<std::int32_t> capacity;
  Tables tables;
};

TEST_F(TablesOfRacks, equal_children_share_one_table) {
  EXPECT_EQ(at("n100", 1), at("n163", 1));
  EXPECT_EQ(at("n100", 0), at("n163", 0));
  EXPECT_EQ(tables.subtrees().kept(), 1u /* node */ + 1 /* rack */ + 1 /* block */);
  tables.of(tree, kRoot);
  capacity[0] = 0;
  ASSERT_TRUE(tables.follow(tree, {capacity, {}, {}}, prices()).ok());
  EXPECT_NE(at("n100", 1), at("n163", 1));
  EXPECT_EQ(at("n100", 1)->pods, 3);
  std::vector<std::int32_t> young(capacity.size(), 0);
  young[0] = 1;
  const Subtree* const before = at("n100", 1);
  ASSERT_TRUE(tables.follow(tree, {capacity, young, {}}, prices()).ok());
  EXPECT_NE(at("n100", 1), before) << "as many pods fit, but its hole is larger";
  EXPECT_EQ(at("n100", 0)->young, 1);
}

TEST_F(TablesOfRacks, an_event_leaves_other_subtrees_as_they_are) {
  tables.of(tree, kRoot);
  const auto costs_of = [&](const std::string& node) { return tables.subtrees().costs(*at(node, 0), 16).data(); };
  const Cost* other = costs_of("n163");
  tables.set(tree, tree.find("n100"), {0, 0, 1});
  tables.of(tree, kRoot);
  EXPECT_EQ(at("n100", kClusterLevel)->pods, 63);
  EXPECT_EQ(costs_of("n163"), other) << "computed once";
  tables.set(tree, tree.find("n100"), {1, 0, 1});
  EXPECT_EQ(costs_of("n100"), other) << "equal again";
}

// Branch and bound is exact only if it holds.
TEST(Tables, a_lower_bound_is_never_above_the_cost) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  int met = 0;
  for (int i = 0; i < 2'000; ++i) {
    const Instance instance = random_instance(random);
    const Built b = built(instance);
    Tables tables;
    const Prices prices = Prices::make(instance.objective, instance.levels, instance.node_pods).value();
    ASSERT_TRUE(tables.follow(b.tree, {b.capacity, b.young, b.whole}, prices).ok());
    const Subtree& root = *tables.of(b.tree, kRoot);
    for (int pods = 1; pods <= root.pods; ++pods) {
      const Cost cost = tables.subtrees().costs(root, pods)[static_cast<std::size_t>(pods)];
      const Cost bound = tables.subtrees().at_least(root, pods);
      ASSERT_LE(bound, cost) << described(instance);
      met += bound >= 0.99 * cost;
    }
  }
  EXPECT_GT(met, 2000) << "a bound that is never near the cost is of no use";
}

TEST_F(TablesOfRacks, wrong_capacities_change_nothing) {
  std::vector<std::int32_t> wrong = capacity;
  wrong[7] = -1;
  EXPECT_EQ(tables.follow(tree, {wrong, {}, {}}, prices()).error().message,
            "capacity[7]: must be 0 to node_pods (1), is -1");
  wrong[7] = 2;
  EXPECT_EQ(tables.follow(tree, {wrong, {}, {}}, prices()).error().message,
            "capacity[7]: must be 0 to node_pods (1), is 2");
  wrong.resize(63);
  EXPECT_EQ(tables.follow(tree, {wrong, {}, {}}, prices()).error().message,
            "capacity: has 63 entries, the cluster has node ids below 64");
  EXPECT_EQ(tables.of(tree, kRoot)->pods, 64);
}

}  // namespace
}  // namespace lockstep::placement
