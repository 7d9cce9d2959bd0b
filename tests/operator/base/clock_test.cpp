#include "operator/base/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep {
namespace {

TEST(ManualClock, moves_only_by_advance) {
  ManualClock clock;
  const auto before = clock.now();
  EXPECT_EQ(clock.now(), before);
  clock.advance(std::chrono::seconds(3));
  EXPECT_EQ(clock.now() - before, std::chrono::seconds(3));
}

TEST(ManualClock, a_jump_of_the_wall_clock_leaves_deadlines_alone) {
  ManualClock clock;
  const auto monotonic = clock.now();
  const auto wall = clock.wall_now();
  clock.jump_wall(-std::chrono::hours(2));
  EXPECT_EQ(clock.now(), monotonic);
  EXPECT_EQ(clock.wall_now(), wall - std::chrono::hours(2));
}

TEST(ManualClock, a_waiter_wakes_when_its_deadline_is_passed) {
  ManualClock clock;
  std::mutex mutex;
  std::condition_variable condition;
  const auto deadline = clock.now() + std::chrono::hours(1);
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    while (clock.wait_until(lock, condition, deadline)) {
    }
  });
  clock.advance(std::chrono::hours(2));
  waiter.join();
  EXPECT_GE(clock.now(), deadline);
}

TEST(SystemClock, a_wait_for_the_past_returns_at_once) {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  auto& clock = SystemClock::instance();
  EXPECT_FALSE(clock.wait_until(lock, condition, clock.now() - std::chrono::seconds(1)));
}

}  // namespace
}  // namespace lockstep
