#include "trainer/data/visit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::trainer::data {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Visit, a_call_that_fails_because_storage_is_away_is_repeated) {
  std::atomic<int> outages{2};
  const auto work = [&](std::size_t number) -> Status {
    if (number == 1 && outages.fetch_sub(1) > 0) return fail(ErrorCode::kUnavailable, "Input/output error");
    return {};
  };
  EXPECT_TRUE(visit("opening", {"a", "b", "c"}, seconds(20), work).ok());
  EXPECT_LE(outages, 0);
}

TEST(Visit, an_outage_that_lasts_too_long_is_unavailable) {
  std::atomic<int> calls{0};
  const auto work = [&](std::size_t) {
    ++calls;
    return fail(ErrorCode::kUnavailable, "Input/output error");
  };
  EXPECT_EQ(visit("opening", {"a"}, milliseconds(100), work).error().code, ErrorCode::kUnavailable);
  EXPECT_GT(calls, 1);
}

TEST(Visit, other_errors_are_those_of_the_first_path) {
  const auto work = [](std::size_t number) -> Status {
    if (number == 0) return {};
    return fail(ErrorCode::kNotFound, std::to_string(number));
  };
  EXPECT_EQ(visit("opening", {"a", "b", "c"}, seconds(20), work).error().message, "1");
}

TEST(Visit, several_calls_wait_for_the_storage_at_the_same_time) {
  std::barrier all(kVisitors);
  const auto work = [&](std::size_t) -> Status {
    all.arrive_and_wait();
    return {};
  };
  EXPECT_TRUE(visit("opening", std::vector<std::string>(3 * kVisitors, "a"), seconds(60), work).ok());
}

// One path: of several, the sentence may name another that a busy machine delays.
TEST(Visit, a_call_that_hangs_is_left_behind_and_named) {
  struct Hanging {
    std::atomic<bool> go_on{false}, ended{false};
  };
  const auto hanging = std::make_shared<Hanging>();
  const auto work = [hanging](std::size_t) -> Status {
    hanging->go_on.wait(false);
    hanging->ended = true;
    hanging->ended.notify_all();
    return {};
  };
  const Status done = visit("opening", {"a"}, milliseconds(1), work);
  EXPECT_EQ(done.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(done.error().message, "opening data 'a' has not ended for 0 s; the storage does not answer");
  hanging->go_on = true;
  hanging->go_on.notify_all();
  hanging->ended.wait(false);
}

}  // namespace
}  // namespace lockstep::trainer::data
