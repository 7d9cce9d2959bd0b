// Bulk creates and deletes against a server that goes away, refuses or is slow: what stops, what goes on, and what
// liveness says meanwhile.
#include <gtest/gtest.h>

#include "tests/operator/job/running_controller.h"

namespace lockstep::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::holds_within;
using testing::RunningController;
using testing::WatchedApi;

// Takes each call for `deadline` and answers none, while `away`.
class Blackhole {
 public:
  explicit Blackhole(milliseconds deadline) : deadline_(deadline) {}
  std::optional<Error> operator()() {
    if (!away) return std::nullopt;
    ++calls;
    std::unique_lock lock(mutex_);
    back_.wait_for(lock, deadline_, [this] { return !away; });
    return fail(ErrorCode::kDeadlineExceeded, "the server did not answer");
  }
  void end() {
    const std::lock_guard guard(mutex_);
    away = false;
    back_.notify_all();
  }
  std::atomic<bool> away = false;
  std::atomic<int> calls = 0;  // that got no answer

 private:
  const milliseconds deadline_;
  std::mutex mutex_;
  std::condition_variable back_;
};

TEST(BulkWrites, a_plan_stops_at_the_first_call_without_an_answer) {
  constexpr int kPods = 600;
  Blackhole hole(milliseconds(200));
  JobControllerOptions options;
  options.stuck_after = seconds(2);
  RunningController running(
      [&](const WatchedApi::Write& write) -> std::optional<Error> {
        if (write.resource == kube::kPods && std::string(write.verb) == "create") {
          auto answer = hole();
          if (!answer && hole.calls == 0) hole.away = true;  // after the first create
          return answer;
        }
        return hole();
      },
      options);
  running.create_job("a", kPods);
  ASSERT_TRUE(holds_within(seconds(10), [&] { return hole.calls > 0; }));
  // A call's deadline is 0.2 s; ten of them pass.
  for (const auto end = std::chrono::steady_clock::now() + seconds(5); std::chrono::steady_clock::now() < end;) {
    ASSERT_TRUE(running.controller->healthy()) << "the API server is away, and that is no fault of this process";
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_LT(hole.calls, 100) << "those in flight, and a retry now and then";
  hole.end();
  EXPECT_TRUE(holds_within(seconds(60), [&] { return running.pods("a") == kPods; })) << running.pods("a");
  int twice = 0;
  for (const auto& [name, times] : running.watched.created()) twice += times > 1 ? 1 : 0;
  EXPECT_EQ(twice, 0);
}

}  // namespace
}  // namespace lockstep::job
