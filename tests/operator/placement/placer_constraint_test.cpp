// What a gang may ask for beside nodes: levels, spreading, nodes to avoid. And where the placer says that a gang is.
#include "operator/placement/placer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/operator/placement/desk.h"

namespace lockstep::placement {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Pods by node.
std::map<std::string, int> pods_by_node(const Answer& answer) {
  std::map<std::string, int> pods;
  for (const auto& [slot, node] : answer.nodes) ++pods[node];
  return pods;
}

// How many nodes have so many pods.
std::map<int, int> nodes_by_pods(const Answer& answer) {
  std::map<int, int> nodes;
  for (const auto& [node, pods] : pods_by_node(answer)) ++nodes[pods];
  return nodes;
}

TEST(PlacerExpect, nothing_is_decided_before_every_expected_gang_is_known) {
  Desk desk(1, 1, 2);
  desk.gang("old", 2, 100);
  desk.gang("young", 2);
  desk.placer.expect({"old", "young", "gone"});
  desk.placer.update(desk.gangs.at("young"), desk.now);
  EXPECT_THAT(desk.placer.step(desk.now), IsEmpty());
  EXPECT_EQ(desk.placer.answer("young"), nullptr);
  EXPECT_EQ(desk.placer.next_step(), std::nullopt);
  desk.placer.update(desk.gangs.at("old"), desk.now);
  EXPECT_THAT(desk.placer.step(desk.now), IsEmpty());
  desk.placer.withdraw("gone");
  EXPECT_THAT(desk.placer.step(desk.now), ElementsAre("old", "young"));
  EXPECT_THAT(desk.answer("old").nodes, SizeIs(2)) << "it is first in the queue, though it was updated last";
}

TEST(PlacerAvoid, avoided_nodes_get_pods_only_where_others_do_not_suffice) {
  Desk desk(1, 1, 4);
  Gang& a = desk.gang("a", 3, 100);
  a.avoid = {"b0r0n1", "unknown"};
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(3));
  EXPECT_FALSE(pods_by_node(desk.answer("a")).contains("b0r0n1"));
  Gang& b = desk.gang("b", 1);
  b.avoid = {"b0r0n1"};
  desk.step();
  EXPECT_EQ(desk.answer("b").nodes.at(0), "b0r0n1") << "no other node is free";
}

TEST(PlacerAvoid, an_elastic_gang_starts_smaller_rather_than_on_an_avoided_node) {
  Desk desk(1, 1, 4);
  Gang& gang = desk.gang("a", 4);
  gang.whole = 2;
  gang.avoid = {"b0r0n3"};
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(4)) << "growth takes what is left";
  EXPECT_EQ(desk.answer("a").nodes.at(3), "b0r0n3");
}

TEST(PlacerPreferred, without_a_wait_a_preferred_level_is_taken_where_it_is_free) {
  Desk desk(2, 2, 4);
  desk.gang("a", 3, 100).constraint = {.preferred = kRackLevel};
  desk.step();
  EXPECT_THAT(desk.racks("a"), SizeIs(1));
  desk.gang("b", 4, 90).constraint = {.preferred = kRackLevel};
  desk.gang("c", 4, 80).constraint = {.preferred = kRackLevel};
  desk.gang("d", 4, 70).constraint = {.preferred = kRackLevel};
  desk.step();
  for (const char* key : {"b", "c", "d"}) EXPECT_THAT(desk.racks(key), SizeIs(1)) << key;
  desk.end("b");
  desk.end("c");
  for (const char* node : {"b0r1n0", "b1r0n0", "b1r1n0", "b0r0n0"}) desk.cluster.cordon(node);
  desk.gang("e", 5, 60).constraint = {.preferred = kRackLevel};
  desk.step();
  EXPECT_THAT(desk.answer("e").nodes, SizeIs(5)) << "no rack has room for it, and it does not wait for one";
}

TEST(PlacerPreferred, a_cluster_without_levels_has_the_cluster_as_its_innermost_level) {
  Desk desk(1, 1, 4);
  desk.gang("a", 3).constraint = {.preferred = kClusterLevel};
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(3));
}

TEST(PlacerPreferred, a_preferred_level_outside_the_required_one_is_no_obstacle) {
  Desk desk(1, 2, 4);
  desk.gang("a", 3).constraint = {.required = kRackLevel, .preferred = kBlockLevel, .preferred_left = minutes(1)};
  desk.step();
  EXPECT_THAT(desk.racks("a"), SizeIs(1));
}

TEST(PlacerPreferred, the_longest_durations_are_no_overflow) {
  Desk desk(1, 2, 4);
  for (const char* node : {"b0r0n0", "b0r1n0"}) desk.cluster.cordon(node);
  Gang& gang = desk.gang("a", 4);
  gang.constraint = {.preferred = kRackLevel, .preferred_left = Duration::max()};
  gang.timeout = Duration::max();
  desk.step();
  EXPECT_EQ(desk.why("a"), Why::kPreferred);
  desk.step(std::chrono::hours(24 * 365));
  EXPECT_EQ(desk.why("a"), Why::kPreferred) << "it waits for its rack";
  gang.constraint = {};
  desk.step();
  ASSERT_THAT(desk.answer("a").nodes, SizeIs(4));
  desk.make_pods("a");
  desk.bind("a", {1});
  gang.held_for = std::chrono::hours(24 * 365);
  desk.step();
  EXPECT_FALSE(desk.answer("a").release) << "its timeout has not passed";
  gang.held_for = Duration::max();
  gang.timeout = Duration::min();
  desk.step();
  EXPECT_TRUE(desk.answer("a").release);
}

TEST(PlacerSpread, pods_take_as_many_nodes_as_there_are) {
  Desk desk(1, 2, 4);
  Gang& gang = desk.gang("a", 10);
  gang.shape = desk.cluster.shape(1);
  gang.constraint.spread = true;
  desk.step();
  EXPECT_EQ(nodes_by_pods(desk.answer("a")), (std::map<int, int>{{1, 6}, {2, 2}}));
}

TEST(PlacerSpread, gangs_of_one_pod_do_not_share_the_first_node) {
  Desk desk(1, 1, 4);
  std::set<std::string> nodes;
  for (const char* key : {"a", "b", "c", "d"}) {
    Gang& gang = desk.gang(key, 1);
    gang.shape = desk.cluster.shape(1);
    gang.constraint.spread = true;
    desk.step();
    nodes.insert(desk.answer(key).nodes.at(0));
  }
  EXPECT_THAT(nodes, SizeIs(4));
}

TEST(PlacerSpread, a_successor_goes_where_the_gang_has_fewest_pods) {
  Desk desk(1, 1, 4);
  Gang& gang = desk.gang("a", 3);
  gang.shape = desk.cluster.shape(1);
  gang.constraint.spread = true;
  desk.step();
  desk.run("a");
  desk.lose("a", 1);
  desk.step();
  EXPECT_THAT(pods_by_node(desk.answer("a")), SizeIs(3));
}

TEST(PlacerSpread, a_required_level_holds_and_the_emptiest_domain_is_taken) {
  Desk desk(1, 2, 4);
  desk.gang("big", 2, 100).constraint.required = kRackLevel;
  desk.step();
  const auto taken = desk.racks("big");
  Gang& gang = desk.gang("a", 4);
  gang.shape = desk.cluster.shape(1);
  gang.constraint = {.required = kRackLevel, .spread = true};
  desk.step();
  EXPECT_THAT(desk.racks("a"), SizeIs(1));
  EXPECT_NE(desk.racks("a"), taken) << "there two nodes would have two pods each";
  EXPECT_EQ(nodes_by_pods(desk.answer("a")), (std::map<int, int>{{1, 4}}));
}

TEST(PlacerSpread, exclusive_pods_that_do_not_fit_wait) {
  Desk desk(1, 1, 4);
  Gang& gang = desk.gang("a", 5);
  gang.shape = desk.cluster.shape(1);
  gang.constraint = {.exclusive = true, .spread = true};
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, IsEmpty());
}

TEST(PlacerWhere, a_placed_gang_says_where_it_is) {
  Desk desk(2, 2, 4);
  desk.add_spares(desk.gang("a", 6), 1);
  desk.step();
  const auto& where = desk.answer("a").where;
  ASSERT_TRUE(where);
  EXPECT_EQ(where->level_spanned, kBlockLevel);
  EXPECT_THAT(where->domains, ElementsAre("b0/b0r0", "b0/b0r1"));
  EXPECT_GT(where->score, 0);
  EXPECT_FALSE(where->approximate);
  desk.gang("b", 1, -10);
  desk.step();
  EXPECT_EQ(desk.answer("b").where->level_spanned, desk.cluster.tree().levels()) << "one node";
}

TEST(PlacerWhere, an_incomplete_gang_is_nowhere) {
  Desk desk(1, 1, 4);
  desk.gang("a", 5).whole = 2;
  desk.gang("b", 5, -10);
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(4));
  EXPECT_FALSE(desk.answer("a").where);
  EXPECT_FALSE(desk.answer("b").where);
}

TEST(PlacerWhere, a_score_stays_what_it_was_while_other_gangs_come_and_go) {
  Desk desk(2, 2, 4);
  desk.gang("a", 3, 100);
  desk.gang("b", 4, 90);
  desk.step();
  desk.run("a");
  const auto before = desk.answer("a").where;
  ASSERT_TRUE(before);
  desk.end("b");
  desk.step();
  EXPECT_EQ(desk.answer("a").where, before);
}

TEST(PlacerWhere, a_new_placer_says_the_same_of_bound_pods) {
  Desk desk(2, 2, 4);
  desk.gang("a", 6);
  desk.step();
  desk.run("a");
  const auto before = desk.answer("a").where;
  desk.cluster.restart();
  Placer next(desk.cluster.view());
  next.update(desk.gangs.at("a"), desk.now);
  next.step(desk.now);
  EXPECT_EQ(next.answer("a")->where, before);
}

TEST(PlacerWhere, at_most_64_domains_are_named) {
  Desk desk(1, 70, 1);
  desk.gang("a", 70);
  desk.step();
  ASSERT_TRUE(desk.answer("a").where);
  EXPECT_THAT(desk.answer("a").where->domains, SizeIs(Where::kMostNamed));
  EXPECT_TRUE(std::is_sorted(desk.answer("a").where->domains.begin(), desk.answer("a").where->domains.end()));
}

}  // namespace
}  // namespace lockstep::placement
