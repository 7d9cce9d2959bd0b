// The queue of the placer: one test for each rule. Random worlds are in placer_world_test.cpp.
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

TEST(Placer, gives_nodes_to_a_whole_gang_or_to_none_of_it) {
  Desk desk;
  desk.gang("a", 6);
  desk.gang("b", 3);
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(6));
  EXPECT_THAT(desk.answer("b").nodes, IsEmpty());
  EXPECT_EQ(desk.answer("b").wait,
            (Wait{.why = Why::kNoRoom, .pods = 3, .level = {}, .hole = 2, .held = "rack b0/b0r1", .behind = ""}));
  EXPECT_EQ(desk.cluster.reservations(), 6U);
}

TEST(Placer, an_elastic_gang_starts_with_min_nodes_and_grows_when_there_is_room) {
  Desk desk;
  desk.gang("a", 5);
  desk.step();
  desk.gang("b", 6).whole = 2;
  desk.step();
  EXPECT_THAT(desk.answer("b").nodes, SizeIs(3)) << "all that fits";
  EXPECT_EQ(desk.why("b"), Why::kNoRoom);
  desk.run("b");
  desk.end("a");
  desk.step();
  EXPECT_THAT(desk.answer("b").nodes, SizeIs(6));
  EXPECT_EQ(desk.why("b"), Why::kNothing);
  EXPECT_FALSE(desk.answer("b").gated) << "the gang trains: no pod waits for another";
}

TEST(Placer, growth_comes_after_gangs_that_wait) {
  Desk desk;
  desk.gang("a", 4, 10);
  desk.gangs.at("a").whole = 2;
  desk.gang("x", 6, 20);
  desk.step();
  ASSERT_THAT(desk.answer("a").nodes, SizeIs(2));
  desk.run("a");
  desk.gang("b", 6);
  desk.end("x");
  desk.step();
  EXPECT_THAT(desk.answer("b").nodes, SizeIs(6)) << "though it is younger";
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2));
}

TEST(Placer, repairs_go_before_priority_and_priority_before_age) {
  Desk desk(1, 2, 4);
  desk.gang("full", 4, 50);
  desk.gang("runs", 4, 1);
  desk.step();
  desk.run("runs");
  desk.lose("runs", 3);
  desk.gang("old", 1, 40);
  desk.gang("high", 1, 1).priority = 5;
  desk.step();
  EXPECT_THAT(desk.answer("runs").nodes, SizeIs(4)) << "the repair";
  EXPECT_THAT(desk.answer("high").nodes, IsEmpty());
  desk.lose_all("full");
  desk.gangs.at("full").pods = desk.gangs.at("full").whole = 3;
  desk.gangs.at("full").seats.pop_back();
  desk.step();
  EXPECT_THAT(desk.answer("high").nodes, SizeIs(1)) << "by priority";
  EXPECT_THAT(desk.answer("full").nodes, SizeIs(3)) << "then by age";
  EXPECT_THAT(desk.answer("old").nodes, IsEmpty());
}

TEST(Placer, small_gangs_do_not_starve_a_large_one) {
  Desk desk(1, 2, 4);
  desk.gang("a", 2, 200);
  desk.gang("b", 3, 190);
  for (const char* key : {"a", "b"}) desk.gangs.at(key).constraint.required = kRackLevel;
  desk.step();
  ASSERT_NE(desk.racks("a"), desk.racks("b"));
  desk.gang("large", 4, 100).constraint.required = kRackLevel;
  desk.step();
  EXPECT_EQ(desk.placer.holder(), "large");
  EXPECT_EQ(desk.answer("large").wait.held, "rack b0/" + *desk.racks("a").begin()) << "it has the most room";
  desk.gang("c", 1, 10);
  desk.gang("d", 1, 9);
  desk.step();
  EXPECT_EQ(desk.racks("c"), desk.racks("b")) << "outside the domain that is kept free";
  EXPECT_THAT(desk.answer("d").nodes, IsEmpty());
  EXPECT_EQ(desk.answer("d").wait.behind, "large");
  desk.end("a");
  desk.step();
  EXPECT_THAT(desk.answer("large").nodes, SizeIs(4));
  EXPECT_EQ(desk.placer.holder(), "d") << "the next that waits";
}

TEST(Placer, a_gang_that_comes_before_the_holder_may_use_its_domain) {
  Desk desk(1, 1, 4);
  desk.gang("a", 2);
  desk.step();
  desk.gang("large", 4);
  desk.step();
  ASSERT_EQ(desk.placer.holder(), "large");
  desk.gang("urgent", 2).priority = 1;
  desk.step();
  EXPECT_THAT(desk.answer("urgent").nodes, SizeIs(2));
}

TEST(Placer, the_domain_is_chosen_again_after_some_minutes) {
  Desk desk(1, 2, 4);
  desk.gang("c", 3, 200).constraint.required = kRackLevel;
  desk.gang("a", 2, 190).constraint.required = kRackLevel;
  desk.gang("b", 2, 180).constraint.required = kRackLevel;
  desk.step();
  ASSERT_THAT(desk.racks("c"), ElementsAre("b0r0"));
  ASSERT_THAT(desk.racks("b"), ElementsAre("b0r1"));
  for (const char* key : {"a", "b", "c"}) desk.run(key);
  desk.gang("large", 4).constraint.required = kRackLevel;
  desk.step();
  EXPECT_EQ(desk.answer("large").wait.held, "rack b0/b0r0");
  desk.end("a");
  desk.step(minutes(5) - seconds(1));
  EXPECT_EQ(desk.answer("large").wait.held, "rack b0/b0r0");
  EXPECT_EQ(desk.placer.next_step(), desk.now + seconds(1));
  desk.step(seconds(1));
  EXPECT_EQ(desk.answer("large").wait.held, "rack b0/b0r1") << "it has more room now";
}

TEST(Placer, a_gang_that_no_domain_can_hold_keeps_nothing_free) {
  Desk desk(1, 2, 4);
  desk.gang("giant", 5, 100).constraint.required = kRackLevel;
  desk.gang("a", 8);
  desk.step();
  EXPECT_EQ(desk.why("giant"), Why::kTooLarge);
  EXPECT_EQ(desk.placer.holder(), "");
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(8));
}

TEST(Placer, preferred_is_given_up_after_its_wait) {
  Desk desk(1, 2, 4);
  desk.gang("a", 3, 100).constraint.required = kRackLevel;
  desk.gang("b", 2, 90).constraint.required = kRackLevel;
  desk.step();
  desk.gang("p", 3).constraint = {.required = kBlockLevel, .preferred = kRackLevel, .preferred_left = minutes(1)};
  desk.step();
  EXPECT_THAT(desk.answer("p").nodes, IsEmpty());
  EXPECT_EQ(desk.why("p"), Why::kPreferred);
  EXPECT_LE(*desk.placer.next_step(), desk.now + minutes(1));
  desk.step(minutes(1) - seconds(1));
  EXPECT_THAT(desk.answer("p").nodes, IsEmpty());
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("p").nodes, SizeIs(3));
}

TEST(Placer, spares_delay_nobody) {
  Desk desk(1, 1, 4);
  desk.add_spares(desk.gang("a", 2, 100), 2);
  desk.gang("b", 3, 50);
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2)) << "b waits";
  EXPECT_EQ(desk.why("a"), Why::kNothing) << "a spare is not waited for";
  desk.gangs.erase("b");
  desk.placer.withdraw("b");
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(4));
}

TEST(Placer, exclusive_pods_share_no_node) {
  Desk desk(1, 1, 3);
  Gang& gang = desk.gang("a", 3);
  gang.shape = desk.cluster.shape(2);
  gang.constraint.exclusive = true;
  desk.step();
  std::set<std::string> nodes;
  for (const auto& [slot, node] : desk.answer("a").nodes) nodes.insert(node);
  EXPECT_EQ(nodes.size(), 3U);
}

TEST(Placer, a_running_elastic_gang_takes_back_what_it_had_before_others_start) {
  Desk desk(1, 1, 5);
  desk.gang("a", 4, 10).whole = 2;
  desk.gang("b", 1, 5);
  desk.step();
  desk.run("a");
  desk.run("b");
  desk.gang("c", 2).priority = 9;
  for (const int slot : {2, 3}) desk.lose("a", slot);
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(4));
  EXPECT_THAT(desk.answer("c").nodes, IsEmpty());
}

TEST(Placer, only_changed_answers_are_told_and_nothing_is_searched_without_news) {
  Desk desk(1, 1, 2);
  desk.gang("a", 2);
  desk.gang("b", 1);
  for (const auto& [key, gang] : desk.gangs) desk.placer.update(gang, desk.now);
  EXPECT_THAT(desk.placer.step(desk.now), ElementsAre("a", "b"));
  const auto before = desk.cluster.view().searches();
  EXPECT_THAT(desk.placer.step(desk.now), IsEmpty());
  EXPECT_EQ(desk.cluster.view().searches(), before);
  desk.placer.capacity_changed();
  EXPECT_THAT(desk.placer.step(desk.now), IsEmpty());
  EXPECT_GT(desk.cluster.view().searches(), before);
}

TEST(Placer, a_wait_is_told_in_one_sentence) {
  EXPECT_EQ(describe({}, ""), "");
  EXPECT_EQ(describe({.why = Why::kNoRoom, .pods = 8, .level = 1, .hole = 6, .held = {}, .behind = "team/big"}, "rack"),
            "8 pods need room in one rack, where 6 fit; team/big waits before it");
  EXPECT_EQ(describe({.why = Why::kNoRoom, .pods = 1, .level = {}, .hole = 0, .held = "node n1", .behind = {}}, ""),
            "1 pod needs room in the cluster, where none fit; node n1 is kept free for it");
  EXPECT_EQ(describe({.why = Why::kTooLarge, .pods = 40, .level = 1, .hole = 0, .held = {}, .behind = {}}, "rack"),
            "40 pods need room in one rack, and its nodes are too few even when they are empty");
}

}  // namespace
}  // namespace lockstep::placement
