// The dynamic programme against the oracle (brute_force.h), and what must hold however large the tree is.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/operator/placement/brute_force.h"

namespace lockstep::placement {
namespace {

class PlaceProperty : public testing::Test {
 protected:
  PlaceProperty() : random(seed) {}
  void TearDown() override {
    if (HasFailure()) std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  }
  int pick(int below) { return static_cast<int>(random() % static_cast<std::uint64_t>(below)); }

  std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random;
};

TEST_F(PlaceProperty, equals_brute_force_on_20000_instances) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  int placed = 0, refused = 0, wider = 0, anchored = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Instance instance = random_instance(random);
    const Built b = built(instance);
    const Placement placement = place(b.tree, b.request);
    ASSERT_EQ(difference(instance, placement), "") << "instance " << i << ": " << described(instance);
    if (std::holds_alternative<Refusal>(placement)) {
      ++refused;
      continue;
    }
    ++placed;
    anchored += !b.request.survivors.empty();
    wider +=
        instance.required && instance.preferred && std::get<Assignment>(placement).level_spanned < *instance.preferred;
  }
  // The instances are of all kinds.
  EXPECT_GT(placed, 5000);
  EXPECT_GT(refused, 1000);
  EXPECT_GT(anchored, 500);
  EXPECT_GT(wider, 20) << "required and preferred together, preferred not met";
}

TEST_F(PlaceProperty, shrink_equals_brute_force) {
  int chosen = 0;
  for (int i = 0; i < 5'000; ++i) {
    Instance instance = random_instance(random);
    int all = 0;
    for (TestNode& node : instance.nodes) {
      node.survivors = pick(3);
      node.excluded = false;
      all += node.survivors;
    }
    if (all == 0) continue;
    instance.pods = 1 + pick(std::min(all, 6));
    const Built b = built(instance);
    const Placement placement = shrink(b.tree, shrinking(instance, b));
    ASSERT_EQ(difference(instance, placement, true), "") << "instance " << i << ": " << described(instance);
    chosen += std::holds_alternative<Assignment>(placement);
  }
  EXPECT_GT(chosen, 1000);
}

TEST_F(PlaceProperty, a_refusal_names_the_largest_hole_of_each_level) {
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    const Instance instance = random_instance(random);
    const Built b = built(instance);
    const Placement placement = place(b.tree, b.request);
    const auto* refusal = std::get_if<Refusal>(&placement);
    if (!refusal) continue;
    ++refused;
    ASSERT_EQ(refusal->largest.size(), static_cast<std::size_t>(instance.levels) + 2);
    for (const Hole& hole : refusal->largest) {
      ASSERT_EQ(hole.pods, largest_hole(instance, hole.level)) << hole.level << " " << described(instance);
      const auto depth = static_cast<std::size_t>(hole.level + 1);
      ASSERT_EQ(hole.path.size(), hole.pods == 0 ? 0 : depth);
    }
  }
  EXPECT_GT(refused, 300);
}

// (level, span) at λ = 0: more room never makes the best placement worse.
TEST_F(PlaceProperty, free_nodes_that_are_added_never_make_it_worse) {
  int compared = 0;
  for (int i = 0; i < 2'000; ++i) {
    Instance instance = random_instance(random);
    instance.objective.lambda = 0;
    const Built before = built(instance);
    const Placement first = place(before.tree, before.request);
    Instance more = instance;
    for (int added = 1 + pick(3); added > 0; --added) {
      TestNode node = instance.nodes[static_cast<std::size_t>(pick(static_cast<int>(instance.nodes.size())))];
      node.name = "extra" + std::to_string(added);
      node.capacity = instance.node_pods;
      node.young = 0;
      node.whole = instance.node_pods;
      node.survivors = 0;
      node.excluded = false;
      more.nodes.push_back(node);
    }
    const Built after = built(more);
    const Placement second = place(after.tree, after.request);
    if (std::holds_alternative<Refusal>(first)) continue;
    ++compared;
    ASSERT_TRUE(std::holds_alternative<Assignment>(second)) << described(more);
    const auto& a = std::get<Assignment>(first);
    const auto& b = std::get<Assignment>(second);
    const int deepest = instance.preferred.value_or(instance.levels);
    const int level_before = std::min(a.level_spanned, deepest), level_after = std::min(b.level_spanned, deepest);
    ASSERT_GE(level_after, level_before) << described(more);
    if (level_after == level_before) {
      ASSERT_LE(b.score, a.score) << described(more);
    }
  }
  EXPECT_GT(compared, 500);
}

TEST_F(PlaceProperty, permuted_names_keep_level_and_score) {
  for (int i = 0; i < 2'000; ++i) {
    const Instance instance = random_instance(random);
    Instance renamed = instance;
    std::vector<std::size_t> order(instance.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t n = 0; n < order.size(); ++n) renamed.nodes[n].name = instance.nodes[order[n]].name;
    const Built a = built(instance), b = built(renamed);
    const Placement first = place(a.tree, a.request), second = place(b.tree, b.request);
    ASSERT_EQ(first.index(), second.index());
    if (std::holds_alternative<Refusal>(first)) continue;
    ASSERT_EQ(std::get<Assignment>(first).score, std::get<Assignment>(second).score) << described(instance);
    const int deepest = instance.preferred.value_or(instance.levels);  // deeper levels are no better
    ASSERT_EQ(std::min(std::get<Assignment>(first).level_spanned, deepest),
              std::min(std::get<Assignment>(second).level_spanned, deepest));
  }
}

// The assignment by names: what must not depend on ids.
std::vector<std::pair<std::string, int>> by_name(const Tree& tree, const Placement& placement) {
  std::vector<std::pair<std::string, int>> named;
  for (const auto& [node, pods] : std::get<Assignment>(placement).nodes) named.emplace_back(tree.node_name(node), pods);
  return named;
}

TEST_F(PlaceProperty, ties_go_by_name_whatever_the_order_of_events) {
  for (int i = 0; i < 2'000; ++i) {
    const Instance instance = random_instance(random);
    std::vector<std::size_t> order(instance.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const Built a = built(instance), b = built(instance, order);
    const Placement first = place(a.tree, a.request), second = place(b.tree, b.request);
    ASSERT_EQ(first.index(), second.index());
    if (std::holds_alternative<Refusal>(first)) continue;
    ASSERT_EQ(by_name(a.tree, first), by_name(b.tree, second));
  }
}

// On a tree whose edges weigh span, a tour over nodes costs at least twice the tree that they span. The order of an
// assignment attains it: ring cost = 2 × span.
TEST_F(PlaceProperty, the_order_of_the_nodes_is_an_ideal_ring) {
  int rings = 0;
  for (int i = 0; i < 2'000; ++i) {
    Instance instance = random_instance(random);
    for (TestNode& node : instance.nodes) node.survivors = 0;
    const Built b = built(instance);
    const Placement placement = place(b.tree, b.request);
    if (std::holds_alternative<Refusal>(placement)) continue;
    const auto& assignment = std::get<Assignment>(placement);
    const auto& span = instance.objective.span;
    const int nodes_level = instance.levels;
    // The id of the node's domain at a level; nodes and domains are of different levels, so that ids do not mix.
    const auto at = [&](NodeId node, int level) { return level == nodes_level ? node : b.tree.domain_of(node, level); };
    double ring = 0, tree = 0;
    std::vector<std::pair<int, std::int32_t>> used;
    for (std::size_t n = 0; n < assignment.nodes.size(); ++n) {
      const NodeId from = assignment.nodes[n].first;
      const NodeId to = assignment.nodes[(n + 1) % assignment.nodes.size()].first;
      for (int level = 0; level <= nodes_level; ++level) {
        if (at(from, level) != at(to, level)) ring += 2 * span[static_cast<std::size_t>(level)];
        if (level > assignment.level_spanned) used.emplace_back(level, at(from, level));
      }
    }
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (const auto& [level, id] : used) tree += span[static_cast<std::size_t>(level)];
    ASSERT_EQ(ring, 2 * tree) << described(instance);
    rings += assignment.nodes.size() > 2;
  }
  EXPECT_GT(rings, 200);
}

}  // namespace
}  // namespace lockstep::placement
