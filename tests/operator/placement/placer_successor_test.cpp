// Nodes that are reserved for the next pods of slots whose pods are to leave: one test for each rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/placement/desk.h"

namespace lockstep::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// Gang "a" of two pods that run, of which that of slot 1 is to leave.
struct Moving : Desk {
  explicit Moving(int nodes = 4) : Desk(1, 1, nodes) {
    gang("a", 2);
    step();
    run("a");
  }
  Gang& a() { return gangs.at("a"); }
  std::string left() { return a().seats[1].node; }
  void move() {
    a().successors = {{.slot = 1, .pod = "x/a-1-2", .from = left()}};
    step();
  }
  // The pod has left, and its slot has the next one, without a node yet.
  void leave() {
    cluster.erase(a().seats[1].pod);
    cluster.deliver();
    a().seats[1] = {.slot = 1, .pod = "x/a-1-2", .node = {}};
    a().successors.clear();
    placer.capacity_changed();
    step();
  }
};

TEST(PlacerSuccessor, a_node_is_reserved_that_is_none_of_the_gangs_and_nobody_else_gets_it) {
  Moving s(3);
  s.move();
  ASSERT_THAT(s.answer("a").reserved, SizeIs(1));
  const std::string node = s.answer("a").reserved.at(1);
  EXPECT_THAT(s.answer("a").nodes, ElementsAre(Pair(0, s.a().seats[0].node), Pair(1, s.left()))) << "the pod stays";
  EXPECT_NE(node, s.left());
  EXPECT_NE(node, s.a().seats[0].node);
  s.gang("b", 1);
  s.step();
  EXPECT_THAT(s.answer("b").nodes, IsEmpty());
}

TEST(PlacerSuccessor, the_next_pod_gets_the_reserved_node_though_others_wait_for_it) {
  Moving s(3);
  s.move();
  const std::string node = s.answer("a").reserved.at(1);
  s.gang("b", 1, 500).priority = 9;
  s.leave();
  EXPECT_EQ(s.answer("a").nodes.at(1), node);
  EXPECT_THAT(s.answer("a").reserved, IsEmpty());
  EXPECT_NE(s.answer("b").nodes.at(0), node) << "b gets the node that was left";
}

TEST(PlacerSuccessor, without_another_node_nothing_is_reserved_until_there_is_one) {
  Moving s(2);
  s.move();
  EXPECT_THAT(s.answer("a").reserved, IsEmpty());
  s.cluster.add("b0r0n9", "b0", "b0r0", 8);
  s.placer.capacity_changed();
  s.step();
  EXPECT_THAT(s.answer("a").reserved, ElementsAre(Pair(1, "b0r0n9")));
}

TEST(PlacerSuccessor, the_node_that_is_left_and_those_that_the_gang_avoids_are_none) {
  Moving s(3);
  s.gangs.at("a").avoid = {"b0r0n0", "b0r0n1", "b0r0n2"};
  s.move();
  EXPECT_THAT(s.answer("a").reserved, IsEmpty());
}

TEST(PlacerSuccessor, a_node_that_refused_a_pod_is_searched_again_when_its_time_is_over) {
  Moving s(3);
  s.add_spares(s.a(), 1);
  s.step();
  Seat& spare = s.a().seats[2];
  const std::string node = s.answer("a").nodes.at(2);
  spare.node = node;
  spare.state = SeatState::kRefused;
  s.step();
  s.a().seats.pop_back();
  s.a().spares = 0;
  s.move();
  EXPECT_THAT(s.answer("a").reserved, IsEmpty());
  s.step(PlacerOptions().avoid);
  EXPECT_THAT(s.answer("a").reserved, ElementsAre(Pair(1, node))) << "nothing else has changed";
}

TEST(PlacerSuccessor, the_constraint_holds_with_the_others) {
  Desk desk(1, 2, 2);
  desk.gang("a", 2).constraint.required = kRackLevel;
  desk.step();
  desk.run("a");
  Gang& gang = desk.gangs.at("a");
  gang.successors = {{.slot = 1, .pod = "x/a-1-2", .from = gang.seats[1].node}};
  desk.step();
  EXPECT_THAT(desk.answer("a").reserved, IsEmpty()) << "the rack has no third node";
}

TEST(PlacerSuccessor, no_other_pod_of_an_exclusive_gang_gets_the_reserved_node) {
  Desk desk(1, 1, 3);
  Gang& gang = desk.gang("a", 2);
  gang.shape = desk.cluster.shape(4);  // two fit on a node
  gang.constraint.exclusive = true;
  desk.step();
  desk.run("a");
  gang.successors = {{.slot = 1, .pod = "x/a-1-2", .from = gang.seats[1].node}};
  desk.step();
  ASSERT_THAT(desk.answer("a").reserved, SizeIs(1));
  desk.add_spares(gang, 1);
  desk.step();
  EXPECT_FALSE(desk.answer("a").nodes.contains(2)) << "the spare would share " << desk.answer("a").reserved.at(1);
}

TEST(PlacerSuccessor, a_reserved_node_that_takes_no_more_pods_is_given_up_for_another) {
  Moving s(4);
  s.move();
  const std::string first = s.answer("a").reserved.at(1);
  s.cluster.cordon(first);
  s.placer.capacity_changed();
  s.step();
  ASSERT_THAT(s.answer("a").reserved, SizeIs(1));
  EXPECT_NE(s.answer("a").reserved.at(1), first);
}

TEST(PlacerSuccessor, a_reservation_ends_with_the_wish_the_gang_or_the_name_of_the_pod) {
  Moving s(3);
  const std::size_t before = s.cluster.reservations();
  s.move();
  EXPECT_EQ(s.cluster.reservations(), before + 1);
  s.a().successors[0].pod = "x/a-1-3";
  s.step();
  EXPECT_EQ(s.cluster.reservations(), before + 1) << "that of the old name has ended";
  s.a().successors.clear();
  s.step();
  EXPECT_EQ(s.cluster.reservations(), before);
  EXPECT_THAT(s.answer("a").reserved, IsEmpty());
  s.move();
  s.end("a");
  EXPECT_EQ(s.cluster.reservations(), 0U);
}

TEST(PlacerSuccessor, placeable_gangs_come_first_and_a_domain_kept_free_stays_free) {
  Moving s(3);
  s.a().successors = {{.slot = 1, .pod = "x/a-1-2", .from = s.left()}};
  s.gang("b", 1);
  s.step();
  EXPECT_THAT(s.answer("b").nodes, SizeIs(1));
  EXPECT_THAT(s.answer("a").reserved, IsEmpty());
  Moving other(3);
  other.gang("b", 2);
  other.step();
  EXPECT_EQ(other.placer.holder(), "b");
  other.move();
  EXPECT_THAT(other.answer("a").reserved, IsEmpty()) << "b waits for that node";
}

}  // namespace
}  // namespace lockstep::placement
