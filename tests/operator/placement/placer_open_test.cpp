// Whether a pod may be opened is asked again right before the write: what the placer says by then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/placement/desk.h"

namespace lockstep::placement {
namespace {

using ::testing::SizeIs;

Opening opening_of(const Seat& seat, const std::string& node) {
  return {.slot = seat.slot, .pod = seat.pod, .uid = seat.state == SeatState::kWanted ? "" : seat.pod, .node = node};
}

TEST(PlacerOpen, opens_what_the_answer_says_and_nothing_else) {
  Desk desk;
  desk.gang("a", 2);
  desk.step();
  const Seat wanted = desk.gangs.at("a").seats[0];
  const std::string node = desk.answer("a").nodes.at(0);
  EXPECT_FALSE(desk.placer.open("a", opening_of(wanted, node))) << "pods of this gang get a gate";
  desk.make_pods("a");
  ASSERT_TRUE(desk.answer("a").open);
  const Opening right = opening_of(desk.gangs.at("a").seats[0], node);
  struct Case {
    const char* what;
    std::string gang;
    Opening opening;
  };
  Opening slot = right, place = right, pod = right;
  slot.slot = 2;
  place.node = desk.answer("a").nodes.at(1);
  pod.pod += "'";
  for (const Case& one : {Case{"no such gang", "b", right}, Case{"no such slot", "a", slot},
                          Case{"another node", "a", place}, Case{"another pod", "a", pod}}) {
    EXPECT_FALSE(desk.placer.open(one.gang, one.opening)) << one.what;
  }
  EXPECT_EQ(desk.cluster.openings(), 0U);
  EXPECT_TRUE(desk.placer.open("a", right));
  EXPECT_EQ(desk.cluster.openings(), 1U);
}

TEST(PlacerOpen, a_gang_that_is_no_longer_whole_opens_no_further_pod) {
  Desk desk(1, 1, 3);
  desk.gang("a", 3);
  desk.step();
  desk.make_pods("a");
  const auto nodes = desk.answer("a").nodes;
  desk.cluster.cordon(nodes.at(1));
  desk.placer.capacity_changed();
  EXPECT_TRUE(desk.placer.open("a", opening_of(desk.gangs.at("a").seats[0], nodes.at(0))));
  EXPECT_FALSE(desk.placer.open("a", opening_of(desk.gangs.at("a").seats[1], nodes.at(1)))) << "cordoned";
  EXPECT_FALSE(desk.placer.open("a", opening_of(desk.gangs.at("a").seats[2], nodes.at(2)))) << "before the next step";
  desk.placer.step(desk.now);
  EXPECT_FALSE(desk.placer.open("a", opening_of(desk.gangs.at("a").seats[2], nodes.at(2))));
}

TEST(PlacerOpen, a_pod_whose_node_has_no_room_gets_another_one) {
  Desk desk;
  desk.gang("a", 2);
  desk.step();
  desk.make_pods("a");
  const Seat seat = desk.gangs.at("a").seats[0];
  desk.cluster.write("y/other", seat.node, 8, kBound);
  desk.cluster.deliver();
  EXPECT_FALSE(desk.placer.open("a", opening_of(seat, seat.node)));
  EXPECT_THAT(desk.placer.step(desk.now), SizeIs(1)) << "the gang is told";
  ASSERT_TRUE(desk.answer("a").nodes.contains(0));
  EXPECT_NE(desk.answer("a").nodes.at(0), seat.node);
  EXPECT_FALSE(desk.answer("a").open) << "the annotation is rewritten first";
}

// The operator begins with a list of all pods that is older than what it knows of the gang's own.
TEST(PlacerOpen, a_node_is_not_given_out_while_a_pod_that_ends_is_on_it) {
  Desk desk(1, 1, 1);
  Gang& gang = desk.gang("a", 1);
  const std::string node = desk.cluster.names().front();
  const std::string version = desk.cluster.write("x/ending", node, 8, kBound);
  gang.ending = {{.pod = "x/ending", .node = node, .state = SeatState::kBound, .uid = "x/ending", .version = version}};
  desk.step();
  EXPECT_TRUE(desk.answer("a").nodes.empty()) << "no list has shown that pod";
  desk.cluster.deliver();
  EXPECT_EQ(desk.cluster.openings(), 0U) << "now one has";
  desk.step();
  EXPECT_TRUE(desk.answer("a").nodes.empty());
  desk.cluster.erase("x/ending");
  desk.cluster.deliver();
  desk.placer.capacity_changed();
  desk.step();
  EXPECT_EQ(desk.answer("a").nodes, (std::map<int, std::string>{{0, node}}));
  EXPECT_EQ(desk.cluster.openings(), 0U) << "what the job still sees is older";
}

TEST(PlacerOpen, a_gang_that_was_refused_is_told_though_its_node_has_room_again) {
  Desk desk(1, 1, 1);
  desk.gang("a", 1);
  desk.step();
  const Opening opening = opening_of(desk.gangs.at("a").seats[0], desk.answer("a").nodes.at(0));
  desk.cluster.write("y/other", opening.node, 8, kBound);
  desk.cluster.deliver();
  EXPECT_FALSE(desk.placer.open("a", opening));
  desk.cluster.erase("y/other");
  desk.cluster.deliver();
  EXPECT_THAT(desk.placer.step(desk.now), SizeIs(1));
  EXPECT_EQ(desk.answer("a").nodes.at(0), opening.node);
  EXPECT_TRUE(desk.placer.open("a", opening));
}

TEST(PlacerOpen, an_opened_pod_keeps_its_place_where_a_gated_one_loses_it) {
  for (const bool opened : {false, true}) {
    Desk desk;
    desk.gang("a", 2);
    desk.step();
    desk.make_pods("a");
    const Seat seat = desk.gangs.at("a").seats[0];
    EXPECT_EQ(opened && desk.placer.open("a", opening_of(seat, seat.node)), opened);
    desk.cluster.write("y/other", seat.node, 8, kBound);
    desk.cluster.deliver();
    desk.placer.capacity_changed();
    desk.placer.step(desk.now);
    EXPECT_EQ(desk.answer("a").nodes.at(0) == seat.node, opened);
  }
}

TEST(PlacerOpen, two_gangs_that_count_on_one_node_do_not_both_get_it) {
  Desk desk(1, 1, 1);
  desk.cluster.write("x/a-0-1", "", 8, kBound, "predecessor");
  desk.cluster.deliver();
  desk.gang("a", 1, 2);
  desk.step();
  // It goes late, and with it ends what is reserved for its name.
  desk.cluster.erase("x/a-0-1");
  desk.cluster.deliver();
  desk.gang("b", 1, 1);
  desk.step();
  ASSERT_EQ(desk.answer("a").nodes, desk.answer("b").nodes);
  const auto opening = [&](const char* key) { return opening_of(desk.gangs.at(key).seats[0], "b0r0n0"); };
  EXPECT_TRUE(desk.placer.open("b", opening("b")));
  EXPECT_FALSE(desk.placer.open("a", opening("a")));
  desk.cluster.opened("x/b-0-1", "", "");
  desk.step();
  EXPECT_EQ(desk.answer("b").nodes.at(0), "b0r0n0") << "its write failed, and it may try again";
  EXPECT_TRUE(desk.answer("a").nodes.empty());
}

// The watch of all pods still shows the gate that the former leader removed, while the gang's own pods are newer.
TEST(PlacerOpen, a_new_leader_counts_a_pod_that_its_predecessor_opened) {
  for (const auto state : {SeatState::kGated, SeatState::kPinned, SeatState::kBound}) {
    Desk desk(0, 0, 0);
    desk.cluster.add("n", "b0", "r0", 32);
    for (const char* key : {"a", "b"}) desk.gang(key, 1);
    for (auto& [key, gang] : desk.gangs) {
      Seat& seat = gang.seats[0];
      const std::string version = desk.cluster.write(seat.pod, "n", 8);
      seat = {.slot = 0, .pod = seat.pod, .node = "n", .state = SeatState::kGated, .uid = seat.pod, .version = version};
    }
    desk.cluster.deliver();
    Seat& opened = desk.gangs.at("a").seats[0];
    opened.state = state;
    opened.version = desk.cluster.write(opened.pod, "n", 8, state == SeatState::kBound ? kBound : 0);
    desk.step();
    const Seat& other = desk.gangs.at("b").seats[0];
    ASSERT_TRUE(desk.answer("b").open);
    desk.cluster.add("n", "b0", "r0", 8);
    EXPECT_EQ(desk.placer.open("b", opening_of(other, "n")), state == SeatState::kGated);
    desk.cluster.opened(other.pod, "");
    desk.cluster.deliver();
    EXPECT_EQ(desk.cluster.openings() + desk.cluster.reservations(), 0U);
  }
}

}  // namespace
}  // namespace lockstep::placement
