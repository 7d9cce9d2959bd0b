#include "trainer/data/attended.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace lockstep::trainer::data {
namespace {

const auto kAnswers = [] { return Status(); };

TEST(Attended, each_number_is_worked_on_once) {
  for (const int threads : {1, 3, 50}) {
    std::mutex mutex;
    std::multiset<std::size_t> numbers;
    auto work = [&](std::size_t number) {
      const std::lock_guard guard(mutex);
      numbers.insert(number);
      return Status();
    };
    EXPECT_TRUE(attend(20, threads, work, kAnswers).ok());
    EXPECT_EQ(numbers.size(), 20U);
    EXPECT_EQ(std::set<std::size_t>(numbers.begin(), numbers.end()).size(), 20U);
  }
  EXPECT_TRUE(attend(
                  0, 2, [](std::size_t) { return fail(ErrorCode::kInternal, ""); }, kAnswers)
                  .ok());
}

TEST(Attended, the_error_is_that_of_the_lowest_number) {
  std::atomic<bool> later_failed{false};
  auto work = [&](std::size_t number) -> Status {
    if (number == 1) later_failed.wait(false);
    if (number == 2) {
      later_failed = true;
      later_failed.notify_all();
    }
    if (number == 0) return {};
    return fail(ErrorCode::kInvalid, std::to_string(number));
  };
  EXPECT_EQ(attend(9, 2, work, kAnswers).error().message, "1");
}

TEST(Attended, work_without_memory_is_an_error) {
  auto work = [](std::size_t) -> Status { throw std::bad_alloc(); };
  EXPECT_EQ(attend(1, 1, work, kAnswers).error().message, "cannot read data: std::bad_alloc");
}

TEST(Attended, work_that_hangs_is_left_behind_with_what_it_owns) {
  struct Hanging {
    std::atomic<bool> go_on{false}, ended{false};
  };
  const auto hanging = std::make_shared<Hanging>();
  auto work = [hanging](std::size_t) {
    hanging->go_on.wait(false);
    hanging->ended = true;
    hanging->ended.notify_all();
    return Status();
  };
  const Status done = attend(3, 2, work, [] { return fail(ErrorCode::kDeadlineExceeded, "hangs"); });
  EXPECT_EQ(done.error().message, "hangs");
  hanging->go_on = true;
  hanging->go_on.notify_all();
  hanging->ended.wait(false);
}

}  // namespace
}  // namespace lockstep::trainer::data
