#include "operator/placement/place.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <random>

namespace lockstep::placement {
namespace {

const Profile kBlocksAndRacks{"test", {{"block", "b"}, {"rack", "r"}}};

// Racks of the given sizes, four to a block; every node has room for one pod.
struct Racks {
  explicit Racks(const std::vector<int>& sizes) : tree(kBlocksAndRacks) {
    for (std::size_t rack = 0; rack < sizes.size(); ++rack) {
      for (int node = 0; node < sizes[rack]; ++node) {
        tree.put(fmt::format("r{:02}-n{:02}", rack, node),
                 {{"b", fmt::format("b{}", rack / 4)}, {"r", fmt::format("r{:02}", rack)}});
      }
    }
    capacity.assign(static_cast<std::size_t>(tree.node_limit()), 1);
    request.capacity = capacity;
  }
  NodeId node(const std::string& name) const { return tree.find(name); }
  void set_young(std::vector<std::int32_t> pods) {
    young = std::move(pods);
    request.young = young;
  }
  void set_whole(std::vector<std::int32_t> pods) {
    whole = std::move(pods);
    request.whole = whole;
  }
  void fill(const std::string& name) { capacity[static_cast<std::size_t>(node(name))] = 0; }
  // The racks that are used, each with its pods.
  std::string racks(const Placement& placement) const {
    if (const auto* refusal = std::get_if<Refusal>(&placement)) return refusal->message;
    std::string text;
    std::map<std::string, int> pods;
    for (const auto& [id, count] : std::get<Assignment>(placement).nodes) pods[tree.name(tree.domain_of(id))] += count;
    for (const auto& [rack, count] : pods) text += fmt::format("{}{}:{}", text.empty() ? "" : " ", rack, count);
    return text;
  }

  Tree tree;
  std::vector<std::int32_t> capacity, young, whole;
  Request request;
};

TEST(Place, the_smallest_hole_that_fits_is_broken) {
  Racks cluster({4, 4, 4, 4});
  cluster.fill("r02-n01");
  cluster.request.pods = 3;
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r02:3");
}

TEST(Place, irregular_racks_are_used_as_few_as_can_be) {
  // The leaf groups of a real cluster of 64 nodes.
  Racks cluster({1, 1, 2, 2, 2, 3, 3, 3, 5, 5, 6, 6, 6, 8, 11});
  cluster.request.pods = 11;
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r14:11");
  cluster.request.pods = 12;  // no rack; of the blocks, r12 to r14 together hold 25
  const Placement twelve = place(cluster.tree, cluster.request);
  EXPECT_EQ(std::get<Assignment>(twelve).level_spanned, 0);
  EXPECT_EQ(std::get<Assignment>(twelve).nodes.size(), 12u);
  cluster.request.pods = 64;
  EXPECT_EQ(std::get<Assignment>(place(cluster.tree, cluster.request)).level_spanned, kClusterLevel);
}

TEST(Place, a_replacement_goes_next_to_the_survivors) {
  Racks cluster({4, 4, 4, 4, 4});
  for (const char* name : {"r00-n00", "r00-n01", "r00-n02"}) {
    cluster.fill(name);
    cluster.request.survivors.emplace_back(cluster.node(name), 1);
  }
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r00:1");
  cluster.request.exclude.push_back(cluster.node("r00-n03"));
  const Placement next_rack = place(cluster.tree, cluster.request);
  EXPECT_EQ(cluster.racks(next_rack), "r01:1") << "the same block";
  EXPECT_EQ(std::get<Assignment>(next_rack).level_spanned, 0);
}

TEST(Place, required_and_preferred_hold_together) {
  Racks cluster({4, 4, 4, 4, 8});
  cluster.request.required = 0;
  cluster.request.preferred = 1;
  cluster.request.pods = 8;
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r04:8") << "preferred";
  cluster.fill("r04-n00");
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r00:4 r01:4") << "required alone";
  cluster.request.pods = 17;
  const Refusal refusal = std::get<Refusal>(place(cluster.tree, cluster.request));
  EXPECT_EQ(refusal.reason, Refusal::Reason::kNoRoom);
  EXPECT_EQ(refusal.message, "17 pods do not fit into one block: the largest has room for 16");
  ASSERT_EQ(refusal.largest.size(), 4u);
  EXPECT_EQ(refusal.largest[0].pods, 23);
  EXPECT_EQ(refusal.largest[1].path, (std::vector<std::string>{"b0"}));
  EXPECT_EQ(refusal.largest[2].path, (std::vector<std::string>{"b1", "r04"}));
  EXPECT_EQ(refusal.largest[2].pods, 7);
  EXPECT_EQ(refusal.largest[3].path.back(), "r00-n00");
}

TEST(Place, survivors_that_are_apart_are_refused_where_a_level_is_required) {
  Racks cluster({4, 4});
  cluster.request.required = 1;
  cluster.request.survivors = {{cluster.node("r00-n00"), 1}, {cluster.node("r01-n00"), 1}};
  const Refusal refusal = std::get<Refusal>(place(cluster.tree, cluster.request));
  EXPECT_EQ(refusal.reason, Refusal::Reason::kSurvivorsApart);
  EXPECT_EQ(refusal.message, "the pods that run are not in one rack, which is required");
}

TEST(Place, the_pods_that_stay_are_in_the_fewest_racks) {
  Racks cluster({4, 4, 4});
  ShrinkRequest request;
  request.capacity = cluster.capacity;
  for (const char* name : {"r00-n00", "r01-n00", "r01-n01", "r01-n02", "r02-n00"}) {
    cluster.fill(name);
    request.current.emplace_back(cluster.node(name), 1);
  }
  request.keep = 3;
  EXPECT_EQ(cluster.racks(shrink(cluster.tree, request)), "r01:3");
  request.keep = 4;
  EXPECT_EQ(cluster.racks(shrink(cluster.tree, request)), "r00:1 r01:3");
}

TEST(Place, beyond_the_budget_it_is_deterministic_and_says_so) {
  std::vector<int> sizes;
  for (int rack = 0; rack < 200; ++rack) sizes.push_back(1 + rack * 7 % 16);
  Racks cluster(sizes);
  cluster.request.pods = 700;
  const auto exact = std::get<Assignment>(place(cluster.tree, cluster.request));
  EXPECT_FALSE(exact.approximate);
  for (const std::int64_t budget : {std::int64_t{0}, std::int64_t{1000}}) {
    cluster.request.budget = budget;
    const auto greedy = std::get<Assignment>(place(cluster.tree, cluster.request));
    EXPECT_TRUE(greedy.approximate);
    EXPECT_EQ(greedy.level_spanned, exact.level_spanned) << "the level is exact in any case";
    EXPECT_GE(greedy.score, exact.score);
    int pods = 0;
    for (const auto& [node, count] : greedy.nodes) pods += count;
    EXPECT_EQ(pods, 700);
    Tables kept;
    cluster.request.budget = kDefaultBudget;
    place(cluster.tree, kept, cluster.request);
    cluster.request.budget = budget;
    EXPECT_EQ(std::get<Assignment>(place(cluster.tree, kept, cluster.request)).nodes, greedy.nodes)
        << "known tables do not change what the budget allows";
  }
}

struct BadRequest {
  std::string message;
  void (*spoil)(Racks&);
};

TEST(Place, bad_input_is_refused_with_one_sentence) {
  const BadRequest table[] = {
      {"pods: must be 1 to 32768, is 0", [](Racks& c) { c.request.pods = 0; }},
      {"pods: must be 1 to 32768, is -3", [](Racks& c) { c.request.pods = -3; }},
      {"pods: must be 1 to 32768, is 2147483647", [](Racks& c) { c.request.pods = std::numeric_limits<int>::max(); }},
      {"required: the profile has no level 3", [](Racks& c) { c.request.required = 3; }},
      {"preferred: the profile has no level -2", [](Racks& c) { c.request.preferred = -2; }},
      {"required: rack is inside of the preferred level block",
       [](Racks& c) {
         c.request.required = 1;
         c.request.preferred = 0;
       }},
      {"required: node is inside of the preferred level rack",
       [](Racks& c) {
         c.request.required = 2;
         c.request.preferred = 1;
       }},
      {"survivors: there is no node 99",
       [](Racks& c) {
         c.request.survivors = {{99, 1}};
       }},
      {"survivors: there is no node -1",
       [](Racks& c) {
         c.request.survivors = {{kNone, 1}};
       }},
      {"survivors: node r00-n00 has -1 pods, must be 1 to 32768",
       [](Racks& c) {
         c.request.survivors = {{0, -1}};
       }},
      {"capacity[2]: must be 0 to node_pods (1), is -5", [](Racks& c) { c.capacity[2] = -5; }},
      {"node_pods: must be 1 to 16384, is 2147483647",
       [](Racks& c) { c.capacity[2] = std::numeric_limits<std::int32_t>::max(); }},
      {"node_pods: must be 1 to 16384, is -1", [](Racks& c) { c.request.node_pods = -1; }},
      {"capacity: has 0 entries, the cluster has node ids below 8", [](Racks& c) { c.request.capacity = {}; }},
      {"young: has 1 entries, the cluster has node ids below 8", [](Racks& c) { c.set_young({0}); }},
      {"young[3]: must be 0 to 0, which is not free when the node is empty, is 1",
       [](Racks& c) {
         c.set_young({0, 0, 0, 1, 0, 0, 0, 0});
       }},
      {"young[0]: must be 0 to 0, which is not free when the node is empty, is -1",
       [](Racks& c) {
         c.set_young({-1, 0, 0, 0, 0, 0, 0, 0});
       }},
      {"whole[5]: must be the capacity (1) to node_pods (1), is 0",
       [](Racks& c) {
         c.set_whole({1, 1, 1, 1, 1, 0, 1, 1});
       }},
      {"whole[5]: must be the capacity (1) to node_pods (1), is 2",
       [](Racks& c) {
         c.set_whole({1, 1, 1, 1, 1, 2, 1, 1});
       }},
      {"whole: has 2 entries, the cluster has node ids below 8",
       [](Racks& c) {
         c.set_whole({1, 1});
       }},
      {"objective: young must be 0 to 1, is 1.5",
       [](Racks& c) {
         c.request.objective = default_objective(2);
         c.request.objective->young = 1.5;
       }},
      {"objective: power 1 must be 1 to 16, is 0",
       [](Racks& c) {
         c.request.objective = default_objective(2);
         c.request.objective->power[1] = 0;
       }},
      {"objective: must have 3 weights of span, of hole and powers, has 0, 0 and 0",
       [](Racks& c) { c.request.objective = Objective{}; }},
      {"objective: weight 1 is negative or no number",
       [](Racks& c) {
         c.request.objective = default_objective(2);
         c.request.objective->span[1] = -1;
       }},
      {"objective: weight 0 is negative or no number",
       [](Racks& c) {
         c.request.objective = default_objective(2);
         c.request.objective->lambda = std::numeric_limits<double>::quiet_NaN();
       }},
      {"objective: the weights are too large to be added exactly",
       [](Racks& c) {
         c.request.objective = default_objective(2);
         c.request.objective->span[0] = 1e300;
       }},
      {"9 pods do not fit: the cluster has room for 8", [](Racks& c) { c.request.pods = 9; }},
  };
  for (const BadRequest& bad : table) {
    Racks cluster({4, 4});
    bad.spoil(cluster);
    const Placement placement = place(cluster.tree, cluster.request);
    ASSERT_TRUE(std::holds_alternative<Refusal>(placement)) << bad.message;
    EXPECT_EQ(std::get<Refusal>(placement).message, bad.message);
  }
}

TEST(Place, shrinking_to_more_than_there_are_is_refused) {
  Racks cluster({4, 4});
  ShrinkRequest request;
  request.capacity = cluster.capacity;
  request.current = {{0, 1}, {1, 1}};
  request.keep = 3;
  EXPECT_EQ(std::get<Refusal>(shrink(cluster.tree, request)).message, "keep: is 3, the gang has 2 pods");
  request.keep = 1;
  request.node_pods = 1;
  EXPECT_EQ(std::get<Refusal>(shrink(cluster.tree, request)).message,
            "current: node r00-n00 has room for 2 pods, node_pods is 1");
}

TEST(Place, an_empty_cluster_and_an_excluded_stranger_are_normal) {
  const Tree tree(kBlocksAndRacks);
  EXPECT_EQ(std::get<Refusal>(place(tree, {})).message, "1 pod does not fit: the cluster has room for 0");
  Racks cluster({1});
  cluster.request.exclude = {-1, 77};
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r00:1");
}

TEST(Place, default_weights_are_as_documented_at_every_depth) {
  for (int levels = 0; levels <= kMostLevels; ++levels) {
    const Objective objective = default_objective(levels);
    ASSERT_TRUE(Prices::make(objective, levels, kMostPodsOfANode).ok()) << levels;
    const auto at = [&](const auto& weights, int up) { return weights[static_cast<std::size_t>(levels - up)]; };
    for (int up = 0; up <= levels; ++up) {
      const double above = levels > 4 ? 10 : 100;
      const double span = up == 0 ? 1 : up == 1 ? 100 : up == 2 ? 50 : above * at(objective.span, up - 1);
      EXPECT_EQ(at(objective.span, up), span) << up;
      EXPECT_DOUBLE_EQ(at(objective.hole, up), up == 0 ? 0.1 : std::pow(0.4, up - 1)) << up;
      EXPECT_EQ(at(objective.power, up), up < 2 ? 2 : 8) << up;
    }
    EXPECT_EQ(objective.lambda, 1.5);
    EXPECT_EQ(objective.young, 1.0 / 32);
  }
}

TEST(Place, of_equal_holes_the_one_beside_older_pods_is_broken) {
  Racks cluster({4, 4});
  for (const char* node : {"r00-n00", "r00-n01", "r01-n00", "r01-n01"}) cluster.fill(node);
  std::vector<std::int32_t> young(cluster.capacity.size(), 0);
  cluster.request.young = young;
  cluster.request.pods = 2;
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r00:2");
  for (const char* node : {"r00-n00", "r00-n01"}) young[static_cast<std::size_t>(cluster.node(node))] = 1;
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r01:2");
  // One more free node is worth more than the youth of a rack of 4.
  cluster.capacity[static_cast<std::size_t>(cluster.node("r01-n00"))] = 1;
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r00:2");
}

// The hole of a block counts by what it holds when it is empty: nodes that take no such pods make no block half full.
TEST(Place, an_empty_block_is_kept_whole_whatever_else_is_in_it) {
  Racks cluster({2, 2, 2, 2, 2, 2, 2, 2});  // blocks of 8 nodes
  std::vector<std::int32_t> whole(cluster.capacity.size(), 1);
  for (int rack : {2, 3}) {
    for (int node : {0, 1}) {  // half of the first block is for other pods
      const std::string name = fmt::format("r{:02}-n{:02}", rack, node);
      cluster.fill(name);
      whole[static_cast<std::size_t>(cluster.node(name))] = 0;
    }
  }
  for (const char* node : {"r04-n00", "r04-n01"}) cluster.fill(node);  // of the second block, 6 of 8 are free
  cluster.request.pods = 2;
  cluster.request.node_pods = 1;
  cluster.request.whole = whole;
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r05:2");
  cluster.request.whole = {};
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r00:2") << "as if it were half full";
}

TEST(Place, what_no_block_holds_takes_few_racks_before_few_blocks) {
  // Whole racks of three blocks, or six racks of two blocks.
  Racks cluster({4, 1, 1, 1, 4, 1, 1, 1, 4, 1, 1, 1});
  cluster.request.pods = 12;
  EXPECT_EQ(cluster.racks(place(cluster.tree, cluster.request)), "r00:4 r04:4 r08:4");
}

}  // namespace
}  // namespace lockstep::placement
