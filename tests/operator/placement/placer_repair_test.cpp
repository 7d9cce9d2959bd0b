// Gates, refusals, repairs and releases of the placer: one test for each rule.
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

TEST(PlacerRepair, gates_open_when_the_whole_gang_stands_where_it_should) {
  Desk desk;
  Gang& gang = desk.gang("a", 2);
  desk.step();
  EXPECT_TRUE(desk.answer("a").gated);
  EXPECT_FALSE(desk.answer("a").open);
  for (int slot : {0, 1}) {
    Seat& seat = gang.seats[static_cast<size_t>(slot)];
    seat.state = SeatState::kGated;
    seat.node = desk.answer("a").nodes.at(slot);
    desk.step();
    EXPECT_EQ(desk.answer("a").open, slot == 1);
  }
  gang.seats[1].node = "elsewhere";
  desk.step();
  EXPECT_FALSE(desk.answer("a").open) << "an annotation is not yet what was decided";
}

TEST(PlacerRepair, one_successor_needs_no_gate_and_two_do) {
  Desk desk;
  desk.gang("a", 3);
  desk.step();
  desk.run("a");
  desk.lose("a", 1);
  desk.step();
  EXPECT_FALSE(desk.answer("a").gated);
  desk.lose("a", 2);
  desk.step();
  EXPECT_TRUE(desk.answer("a").gated);
}

TEST(PlacerRepair, gated_pods_move_when_their_node_is_lost) {
  Desk desk(1, 2, 4);
  desk.gang("a", 3).constraint.required = kRackLevel;
  desk.step();
  desk.make_pods("a");
  const std::string lost = desk.answer("a").nodes.at(1);
  desk.cluster.cordon(lost);
  desk.placer.capacity_changed();
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(3));
  EXPECT_NE(desk.answer("a").nodes.at(1), lost);
  EXPECT_FALSE(desk.answer("a").open) << "its annotation still names the lost node";
  EXPECT_THAT(desk.racks("a"), SizeIs(1));
  EXPECT_FALSE(desk.answer("a").release);
  desk.make_pods("a");
  EXPECT_TRUE(desk.answer("a").open);
}

TEST(PlacerRepair, gated_pods_without_room_are_released_together) {
  Desk desk(1, 1, 4);
  desk.gang("a", 4);
  desk.step();
  desk.make_pods("a");
  desk.cluster.remove(desk.answer("a").nodes.at(2));
  desk.placer.capacity_changed();
  desk.step();
  EXPECT_TRUE(desk.answer("a").release);
  EXPECT_THAT(desk.answer("a").nodes, IsEmpty());
  desk.lose_all("a");
  desk.step();
  EXPECT_FALSE(desk.answer("a").release);
  EXPECT_EQ(desk.cluster.reservations(), 0U);
}

TEST(PlacerRepair, reservations_without_pods_are_given_up_together) {
  Desk desk(1, 1, 4);
  desk.gang("a", 4);
  desk.step();
  desk.cluster.remove(desk.answer("a").nodes.at(2));
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, IsEmpty());
  EXPECT_EQ(desk.cluster.reservations(), 0U);
}

TEST(PlacerRepair, a_pod_is_unschedulable_for_five_seconds_before_it_is_replaced) {
  Desk desk;
  Gang& gang = desk.gang("a", 3);
  desk.step();
  desk.make_pods("a");
  desk.bind("a", {2});
  const std::string refused = gang.seats[2].node;
  gang.seats[2].unschedulable = true;
  desk.step();
  EXPECT_EQ(desk.placer.next_step(), desk.now + seconds(5));
  desk.step(seconds(4));
  EXPECT_THAT(desk.answer("a").replace, IsEmpty());
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("a").replace, ElementsAre("x/a-2-1"));
  EXPECT_FALSE(desk.answer("a").release);
  EXPECT_EQ(desk.why("a"), Why::kReplacing);
  desk.lose("a", 2);
  desk.step();
  EXPECT_EQ(desk.why("a"), Why::kPaused);
  desk.step(seconds(1));
  ASSERT_TRUE(desk.answer("a").nodes.contains(2));
  EXPECT_NE(desk.answer("a").nodes.at(2), refused);
  EXPECT_FALSE(desk.answer("a").gated) << "the others are bound";
}

TEST(PlacerRepair, a_pod_that_is_bound_before_it_is_replaced_stays) {
  Desk desk;
  Gang& gang = desk.gang("a", 3);
  desk.step();
  desk.make_pods("a");
  desk.bind("a", {2});
  gang.seats[2].unschedulable = true;
  desk.step();
  desk.step(seconds(5));
  ASSERT_THAT(desk.answer("a").replace, ElementsAre("x/a-2-1"));
  gang.seats[2].unschedulable = false;
  gang.seats[2].state = SeatState::kBound;
  desk.step();
  EXPECT_THAT(desk.answer("a").replace, IsEmpty());
  EXPECT_EQ(desk.answer("a").nodes.at(2), gang.seats[2].node);
  EXPECT_EQ(desk.why("a"), Why::kNothing);
}

TEST(PlacerRepair, a_node_that_refused_is_avoided_for_five_minutes_by_that_gang_alone) {
  Desk desk(1, 1, 2);
  Gang& gang = desk.gang("a", 1);
  desk.step();
  desk.make_pods("a");
  const std::string refused = gang.seats[0].node;
  gang.seats[0].state = SeatState::kRefused;
  desk.step();
  EXPECT_THAT(desk.answer("a").replace, ElementsAre("x/a-0-1"));
  desk.lose("a", 0);
  desk.gang("b", 1, 50);
  desk.gang("c", 1, 60);
  desk.step();
  EXPECT_THAT(desk.answer("b").nodes, SizeIs(1));
  EXPECT_THAT(desk.answer("c").nodes, SizeIs(1)) << "it takes the node that refused a";
  for (const char* key : {"b", "c"}) desk.run(key);
  const bool b_there = desk.answer("b").nodes.at(0) == refused;
  desk.end(b_there ? "b" : "c");
  desk.step(minutes(5) - seconds(1));
  EXPECT_THAT(desk.answer("a").nodes, IsEmpty());
  desk.step(seconds(1));
  EXPECT_EQ(desk.answer("a").nodes.at(0), refused);
}

TEST(PlacerRepair, a_gang_that_waits_says_that_nodes_with_room_refused_it) {
  Desk desk(1, 1, 2);
  Gang& gang = desk.gang("a", 2);
  desk.step();
  desk.run("a");
  gang.seats[1].state = SeatState::kRefused;
  desk.step();
  const std::string pod = gang.seats[1].pod;
  desk.lose("a", 1);
  gang.seats[1].pod = pod;
  desk.step(seconds(2));
  EXPECT_EQ(describe(desk.answer("a").wait, ""),
            "1 pod needs room in the cluster, where 1 fits; 1 node that refused its pods is avoided for 5 minutes");
}

TEST(PlacerRepair, a_refused_pod_that_is_gone_is_placed_again_under_its_name) {
  Desk desk(1, 1, 3);
  Gang& gang = desk.gang("a", 2);
  desk.step();
  desk.run("a");
  const Seat before = gang.seats[1];
  gang.seats[1].state = SeatState::kRefused;
  desk.step();
  EXPECT_THAT(desk.answer("a").replace, ElementsAre(before.pod));
  desk.step(seconds(10));
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(1)) << "it is still there";
  desk.lose("a", 1);
  gang.seats[1].pod = before.pod;
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("a").replace, IsEmpty());
  ASSERT_THAT(desk.answer("a").nodes, SizeIs(2));
  EXPECT_NE(desk.answer("a").nodes.at(1), before.node);
}

TEST(PlacerRepair, a_gang_that_trains_before_it_is_released_stays) {
  Desk desk(1, 1, 2);
  Gang& gang = desk.gang("a", 2);
  desk.step();
  desk.make_pods("a");
  desk.bind("a", {1});
  desk.step(minutes(2));
  ASSERT_TRUE(desk.answer("a").release);
  gang.seats[1].state = SeatState::kBound;
  desk.step();
  EXPECT_TRUE(desk.answer("a").release) << "its pods are being deleted";
  gang.running = true;
  gang.may_release = false;
  desk.step();
  EXPECT_FALSE(desk.answer("a").release);
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2));
}

TEST(PlacerRepair, pauses_double_to_a_minute_and_restart_when_the_gang_was_whole) {
  Desk desk(1, 1, 12);
  Gang& gang = desk.gang("a", 1);
  desk.step();
  for (const int pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    desk.make_pods("a");
    gang.seats[0].state = SeatState::kRefused;
    desk.step();
    desk.lose("a", 0);
    desk.step(seconds(pause) - std::chrono::milliseconds(1));
    EXPECT_THAT(desk.answer("a").nodes, IsEmpty()) << pause;
    EXPECT_EQ(desk.placer.next_step(), desk.now + std::chrono::milliseconds(1));
    desk.step(std::chrono::milliseconds(1));
    ASSERT_THAT(desk.answer("a").nodes, SizeIs(1)) << pause;
  }
  desk.make_pods("a");
  desk.bind("a");
  gang.seats[0].state = SeatState::kRefused;
  desk.step();
  desk.lose("a", 0);
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, IsEmpty());
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(1));
}

TEST(PlacerRepair, a_paused_gang_keeps_no_node_free_that_it_avoids) {
  Desk desk(1, 1, 2);
  Gang& gang = desk.gang("a", 2, 100);
  desk.step();
  desk.make_pods("a");
  desk.bind("a", {1});
  gang.seats[1].state = SeatState::kRefused;
  desk.step();
  desk.lose("a", 1);
  desk.gang("b", 1);
  desk.step();
  EXPECT_EQ(desk.why("a"), Why::kPaused);
  EXPECT_THAT(desk.answer("b").nodes, SizeIs(1));
}

TEST(PlacerRepair, half_a_gang_is_released_at_its_timeout) {
  Desk desk(1, 1, 2);
  Gang& gang = desk.gang("a", 2);
  gang.timeout = seconds(30);
  desk.step();
  desk.make_pods("a");
  desk.bind("a", {1});
  desk.step(seconds(29));
  EXPECT_FALSE(desk.answer("a").release);
  EXPECT_EQ(desk.placer.next_step(), desk.now + seconds(1));
  desk.step(seconds(1));
  EXPECT_TRUE(desk.answer("a").release);
  EXPECT_THAT(desk.answer("a").nodes, IsEmpty());
  EXPECT_EQ(desk.why("a"), Why::kReleasing);
  desk.lose_all("a");
  desk.step();
  EXPECT_EQ(desk.why("a"), Why::kPaused);
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2));
}

TEST(PlacerRepair, the_timeout_counts_from_the_pods_when_the_placer_is_new) {
  Desk desk(1, 1, 2);
  Gang& gang = desk.gang("a", 2);
  gang.timeout = seconds(30);
  gang.held_for = seconds(25);
  gang.seats[0] = {.slot = 0, .pod = "x/a-0-1", .node = "b0r0n0", .state = SeatState::kBound};
  gang.seats[1] = {.slot = 1, .pod = "x/a-1-1", .node = "b0r0n1", .state = SeatState::kPinned};
  desk.step();
  EXPECT_FALSE(desk.answer("a").release);
  desk.step(seconds(5));
  EXPECT_TRUE(desk.answer("a").release);
}

TEST(PlacerRepair, a_reserved_gang_whose_pods_do_not_come_is_released) {
  Desk desk;
  desk.gang("a", 2).timeout = seconds(30);
  desk.step();
  desk.step(seconds(29));
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2));
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("a").nodes, IsEmpty());
  EXPECT_EQ(desk.cluster.reservations(), 0U);
}

TEST(PlacerRepair, survivors_that_hold_state_are_not_released) {
  Desk desk(1, 1, 2);
  desk.gang("a", 2).may_release = true;
  desk.step();
  desk.run("a");
  desk.gangs.at("a").may_release = false;
  desk.cluster.cordon(desk.answer("a").nodes.at(1));
  desk.lose("a", 1);
  desk.step();
  desk.step(std::chrono::hours(1));
  EXPECT_FALSE(desk.answer("a").release);
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(1));
  desk.gangs.at("a").may_release = true;
  desk.step();
  EXPECT_TRUE(desk.answer("a").release);
}

TEST(PlacerRepair, a_repair_stays_in_the_required_domain_of_its_survivors) {
  Desk desk(1, 2, 3);
  desk.gang("a", 3).constraint.required = kRackLevel;
  desk.step();
  desk.run("a");
  desk.cluster.cordon(desk.answer("a").nodes.at(0));
  desk.lose("a", 0);
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2)) << "the other rack has room";
  desk.cluster.cordon("b0r0n0", false);
  desk.cluster.cordon("b0r1n0", false);
  desk.placer.capacity_changed();
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(3));
  EXPECT_THAT(desk.racks("a"), SizeIs(1));
}

TEST(PlacerRepair, several_failed_nodes_are_replaced_together_or_not_at_all) {
  Desk desk(1, 1, 4);
  desk.gang("a", 3);
  desk.step();
  desk.run("a");
  for (const int slot : {0, 1}) {
    desk.cluster.cordon(desk.answer("a").nodes.at(slot));
    desk.lose("a", slot);
  }
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(1)) << "one node is free";
  desk.cluster.cordon("b0r0n0", false);
  desk.placer.capacity_changed();
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(3));
}

TEST(PlacerRepair, a_new_placer_takes_places_from_the_pods) {
  Desk desk;
  desk.gang("a", 3);
  desk.step();
  desk.make_pods("a");
  const auto before = desk.answer("a");
  desk.cluster.restart();
  Placer next(desk.cluster.view());
  next.update(desk.gangs.at("a"), desk.now);
  next.step(desk.now);
  EXPECT_EQ(*next.answer("a"), before);
}

TEST(PlacerRepair, gated_pods_of_two_decisions_are_brought_into_one_domain) {
  Desk desk(1, 2, 4);
  Gang& gang = desk.gang("a", 3);
  gang.constraint.required = kRackLevel;
  for (Seat& seat : gang.seats) {
    seat.state = SeatState::kGated;
    seat.node = seat.slot == 0 ? "b0r0n0" : fmt::format("b0r1n{}", seat.slot);
    seat.version = desk.cluster.write(seat.pod, seat.node, desk.cluster.gpus(gang.shape));
  }
  desk.cluster.deliver();
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(3));
  EXPECT_THAT(desk.racks("a"), SizeIs(1));
  EXPECT_FALSE(desk.answer("a").open);
}

TEST(PlacerRepair, withdrawing_ends_all_reservations) {
  Desk desk;
  desk.gang("a", 3);
  desk.step();
  EXPECT_EQ(desk.cluster.reservations(), 3U);
  desk.placer.withdraw("a");
  EXPECT_EQ(desk.cluster.reservations(), 0U);
  EXPECT_EQ(desk.placer.answer("a"), nullptr);
}

}  // namespace
}  // namespace lockstep::placement
