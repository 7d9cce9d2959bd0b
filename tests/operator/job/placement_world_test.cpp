// Jobs are placed, repaired and released in random worlds (placement_world.h).
#include "tests/operator/job/placement_world.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include <fmt/format.h>

#include "tests/sanitizer.h"

namespace lockstep::job::placement_world_test {
namespace {

TEST(PlacementWorld, every_gang_is_bound_and_only_losses_are_attempts) {
  const char* given = std::getenv("LOCKSTEP_SEED");
  const unsigned first = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::cout << "LOCKSTEP_SEED=" << first << std::endl;
  const int worlds = sanitizer::cases(40);
  for (int i = 0; i < worlds && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("LOCKSTEP_SEED={}", first + static_cast<unsigned>(i)));
    PlacementWorld(first + static_cast<unsigned>(i)).run();
  }
  const auto& n = PlacementWorld::counts;
  std::cout << fmt::format(
      "{} refused, {} replaced, {} conflicts, {} released, {} moved, {} opened, {} left closed, {} without a gate, {} "
      "lost, {} deaths, {} switches, {} with GangPlaced, {} answers lost, {} left for a reserved node\n",
      n.refused, n.replaced, n.conflicts, n.released, n.moved, n.opened, n.closed, n.ungated, n.hurt, n.died,
      n.switched, n.gang_placed, n.lost_answers, n.left);
  if (worlds < 40) return;
  for (const int count : {n.refused, n.replaced, n.released, n.opened, n.closed, n.ungated, n.hurt, n.died,
                          n.gang_placed, n.lost_answers, n.left}) {
    EXPECT_GT(count, 0) << "never happened";
  }
}

}  // namespace
}  // namespace lockstep::job::placement_world_test
