// Gangs in trouble: nodes that are relabelled or unknown, pauses, spares, fewer slots. One test for each rule.
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

TEST(PlacerRelabel, a_repair_goes_on_where_bound_pods_lie_apart) {
  Desk desk(2, 2, 4);
  desk.gang("a", 3).constraint.required = kRackLevel;
  desk.step();
  desk.run("a");
  EXPECT_FALSE(desk.answer("a").apart);
  const std::string rack = desk.answer("a").nodes.at(0).substr(0, 4);
  desk.cluster.relabel(desk.answer("a").nodes.at(0), rack == "b0r0" ? "b0r1" : "b0r0");
  desk.step();
  EXPECT_TRUE(desk.answer("a").apart);
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(3)) << "bound pods cannot move";
  desk.lose("a", 2);
  desk.step();
  ASSERT_THAT(desk.answer("a").nodes, SizeIs(3));
  EXPECT_EQ(desk.answer("a").nodes.at(2).substr(0, 2), rack.substr(0, 2)) << "the block has all of it";
  const auto nodes = desk.answer("a").nodes;
  desk.make_pods("a");
  EXPECT_EQ(desk.answer("a").nodes, nodes);
  EXPECT_TRUE(desk.answer("a").open);
}

TEST(PlacerRelabel, a_repair_goes_on_where_nodes_lost_their_label) {
  Desk desk(1, 2, 4);
  desk.gang("a", 2).constraint.required = kRackLevel;
  desk.step();
  desk.run("a");
  desk.cluster.relabel(desk.answer("a").nodes.at(0), "");
  desk.lose("a", 1);
  desk.step();
  EXPECT_TRUE(desk.answer("a").apart);
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2));
}

TEST(PlacerRelabel, gated_pods_follow_those_that_are_bound) {
  Desk desk(1, 2, 4);
  Gang& gang = desk.gang("a", 3);
  gang.constraint.required = kRackLevel;
  for (Seat& seat : gang.seats) {
    seat.state = seat.slot == 0 ? SeatState::kBound : SeatState::kGated;
    seat.node = seat.slot == 0 ? "b0r0n0" : fmt::format("b0r1n{}", seat.slot);
    seat.version =
        desk.cluster.write(seat.pod, seat.node, desk.cluster.gpus(gang.shape), seat.slot == 0 ? kBound : kGated);
  }
  desk.cluster.deliver();
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(3));
  EXPECT_THAT(desk.racks("a"), ElementsAre("b0r0"));
  EXPECT_FALSE(desk.answer("a").apart);
}

TEST(PlacerRelabel, bound_pods_that_share_a_node_block_no_repair) {
  Desk desk(1, 1, 4);
  Gang& gang = desk.gang("a", 3);
  gang.shape = desk.cluster.shape(2);
  gang.constraint.exclusive = true;
  gang.running = true;
  for (Seat& seat : gang.seats) {
    if (seat.slot == 2) continue;
    seat.state = SeatState::kBound;
    seat.node = "b0r0n0";
    seat.version = desk.cluster.write(seat.pod, seat.node, 2, kBound);
  }
  desk.cluster.deliver();
  desk.step();
  ASSERT_THAT(desk.answer("a").nodes, SizeIs(3));
  EXPECT_NE(desk.answer("a").nodes.at(2), "b0r0n0");
  desk.make_pods("a");
  EXPECT_TRUE(desk.answer("a").open);
}

TEST(PlacerAdopt, a_pod_on_an_unknown_node_is_counted_when_the_node_appears) {
  Desk desk(1, 1, 1);
  Gang& gang = desk.gang("a", 1, 100);
  gang.seats[0] = {.slot = 0, .pod = "x/a-0-1", .node = "late", .state = SeatState::kPinned, .version = "900"};
  desk.step();
  desk.cluster.add("late", "b0", "b0r0", 8);
  desk.placer.capacity_changed();
  desk.gang("b", 1, 10);
  desk.gang("c", 1, 5);
  desk.step();
  EXPECT_THAT(desk.answer("b").nodes, SizeIs(1));
  EXPECT_THAT(desk.answer("c").nodes, IsEmpty()) << "the second node is taken";
  EXPECT_EQ(desk.cluster.reservations(), 2U);
}

TEST(PlacerTurn, a_gang_that_pauses_keeps_its_turn) {
  Desk desk(1, 1, 3);
  Gang& gang = desk.gang("a", 2, 100);
  desk.step();
  desk.make_pods("a");
  desk.bind("a", {1});
  gang.seats[1].state = SeatState::kRefused;
  const std::string refused = gang.seats[1].node;
  desk.step();
  desk.gang("b", 1, 50);
  desk.gang("c", 1, 40);
  desk.step();
  EXPECT_EQ(desk.why("a"), Why::kReplacing);
  EXPECT_EQ(desk.placer.holder(), "a");
  EXPECT_FALSE(desk.answer("a").wait.held.empty());
  desk.lose("a", 1);
  desk.step();
  EXPECT_EQ(desk.why("a"), Why::kPaused);
  EXPECT_EQ(desk.answer("b").nodes, (std::map<int, std::string>{{0, refused}})) << "a does not go there";
  EXPECT_THAT(desk.answer("c").nodes, IsEmpty());
  EXPECT_EQ(desk.answer("c").wait.behind, "a");
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2));
}

// Gang a had both nodes, and its timeout is over; gang b waits for one of them. One of the two pods of a is gone.
void release_first_of_two(Desk& desk) {
  desk.gang("a", 2, 100).timeout = seconds(30);
  desk.step();
  desk.make_pods("a");
  desk.bind("a", {1});
  desk.gang("b", 1, 50);
  desk.step(seconds(30));
  ASSERT_TRUE(desk.answer("a").release);
  desk.lose("a", 0);
}

TEST(PlacerTurn, a_released_gang_is_first_again_when_its_pods_are_gone) {
  Desk desk(1, 1, 2);
  release_first_of_two(desk);
  desk.step();
  EXPECT_THAT(desk.answer("b").nodes, IsEmpty());
  desk.lose("a", 1);
  desk.step();
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2));
}

TEST(PlacerTurn, a_gang_whose_pods_never_go_loses_its_turn) {
  Desk desk(1, 1, 2);
  release_first_of_two(desk);
  desk.step(minutes(5) - seconds(1));
  EXPECT_THAT(desk.answer("b").nodes, IsEmpty());
  ASSERT_EQ(desk.placer.next_step(), desk.now + seconds(1));
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("b").nodes, SizeIs(1));
}

TEST(PlacerSpares, a_refused_spare_delays_no_repair) {
  Desk desk(1, 1, 4);
  Gang& gang = desk.gang("a", 2);
  desk.add_spares(gang, 1);
  desk.step();
  ASSERT_THAT(desk.answer("a").nodes, SizeIs(3));
  desk.make_pods("a");
  desk.bind("a");
  gang.running = true;
  gang.seats[2].state = SeatState::kRefused;
  desk.step();
  EXPECT_THAT(desk.answer("a").replace, ElementsAre("x/a-2-1"));
  EXPECT_EQ(desk.why("a"), Why::kNothing);
  desk.lose("a", 2);
  desk.lose("a", 1);
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(2)) << "the spare pauses, the repair does not";
  EXPECT_TRUE(desk.answer("a").nodes.contains(1));
  EXPECT_EQ(desk.why("a"), Why::kNothing);
  desk.step(seconds(1));
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(3));
}

TEST(PlacerSpares, a_gang_starts_without_room_for_its_spares) {
  Desk desk(1, 1, 4);
  Gang& gang = desk.gang("a", 4);
  desk.add_spares(gang, 2);
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(4));
  EXPECT_EQ(desk.why("a"), Why::kNothing) << "no gang waits for spares";
  desk.make_pods("a");
  EXPECT_TRUE(desk.answer("a").open);
  EXPECT_TRUE(desk.answer("a").where);
}

TEST(PlacerShrink, slots_beyond_fewer_pods_lose_their_places) {
  Desk desk(1, 1, 6);
  Gang& gang = desk.gang("a", 6);
  gang.whole = 2;
  desk.step();
  ASSERT_THAT(desk.answer("a").nodes, SizeIs(6));
  gang.pods = 4;  // its pods are still there, or are yet to be made
  desk.step();
  EXPECT_THAT(desk.answer("a").nodes, SizeIs(4));
  EXPECT_EQ(desk.answer("a").nodes.rbegin()->first, 3);
  EXPECT_EQ(desk.why("a"), Why::kNothing);
  EXPECT_EQ(desk.cluster.reservations(), 4U);
  desk.gang("b", 2, -5);
  desk.step();
  EXPECT_THAT(desk.answer("b").nodes, SizeIs(2)) << "on the nodes that it gave back";
}

}  // namespace
}  // namespace lockstep::placement
