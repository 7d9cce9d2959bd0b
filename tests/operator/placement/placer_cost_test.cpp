// What a step of the placer costs, in gangs that it looks at and searches.
#include "operator/placement/placer.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "tests/operator/placement/desk.h"
#include "tests/sanitizer.h"

namespace lockstep::placement {
namespace {

using std::chrono::seconds;

TEST(PlacerCost, a_status_write_of_a_pod_searches_nothing) {
  Desk desk(1, 1, 2);
  desk.gang("a", 2, 100);
  desk.step();
  desk.run("a");
  desk.gang("waits", 2);
  desk.step();
  Gang& gang = desk.gangs.at("a");
  gang.pods = 3;  // it wants to grow
  gang.seats.push_back({.slot = 2, .pod = "x/a-2-1", .node = {}});
  desk.step();
  const auto before = desk.cluster.view().searches();
  gang.seats[0].version = "999";
  desk.step();
  EXPECT_EQ(desk.cluster.view().searches(), before);
}

TEST(PlacerCost, an_update_costs_a_look_at_its_gang_and_at_those_that_wait) {
  Desk desk(1, 10, 100);
  const int gangs = sanitizer::kOn ? 50 : 1000;
  constexpr int kPods = 100;
  for (int i = 0; i < gangs; ++i) {
    Gang& gang = desk.gang(fmt::format("g{:04}", i), kPods);
    gang.shape = desk.cluster.shape(0);
    gang.running = true;
    for (Seat& seat : gang.seats) {
      seat.state = SeatState::kBound;
      seat.node = fmt::format("b0r{}n{}", i % 10, seat.slot);
      seat.version = desk.cluster.write(seat.pod, seat.node, 0, kBound);
    }
  }
  desk.cluster.deliver();
  for (int i = 0; i < 3; ++i) desk.gang(fmt::format("waits{}", i), 1001).constraint.exclusive = true;
  desk.step();
  desk.step(seconds(1));
  Gang& one = desk.gangs.at("g0007");
  std::uint64_t looks = desk.placer.reviews();
  const auto searches = desk.cluster.view().searches();
  constexpr int kUpdates = 20;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kUpdates; ++i) {
    one.seats[static_cast<size_t>(i)].version = std::to_string(100000 + i);
    desk.placer.update(one, desk.now);
    desk.placer.step(desk.now);
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  std::cout << fmt::format("{} gangs of {} pods: {:.1f} us for an update of one\n", gangs, kPods,
                           took.count() / kUpdates);
  EXPECT_EQ(desk.placer.reviews() - looks, 4U * kUpdates);
  EXPECT_EQ(desk.cluster.view().searches(), searches);
  looks = desk.placer.reviews();
  desk.placer.step(desk.now);
  EXPECT_EQ(desk.placer.reviews() - looks, 3U) << "those that wait";
  desk.placer.capacity_changed();
  looks = desk.placer.reviews();
  desk.placer.step(desk.now);
  EXPECT_EQ(desk.placer.reviews() - looks, 3U) << "bound pods stay where they are, whatever else changes";
}

TEST(PlacerCost, a_gang_whose_pods_come_is_reviewed_when_the_cluster_changes) {
  Desk desk(1, 2, 4);
  desk.gang("comes", 2, 100);
  desk.step();
  desk.cluster.cordon(desk.answer("comes").nodes.at(0));
  desk.placer.capacity_changed();
  const std::string lost = desk.answer("comes").nodes.at(0);
  desk.placer.step(desk.now);
  EXPECT_THAT(desk.answer("comes").nodes, ::testing::SizeIs(2));
  EXPECT_NE(desk.answer("comes").nodes.at(0), lost);
}

}  // namespace
}  // namespace lockstep::placement
