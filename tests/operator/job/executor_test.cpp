// Executor: turns between jobs, priorities, the first error, refusals, interruption, liveness, and stopping.
#include "operator/job/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::job::executor_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Priority = Executor::Priority;

const api::ObjectKey kA{"x", "a"}, kB{"x", "b"}, kC{"x", "c"};

// An executor, and the writes that it made in their order: "a3".
class ExecutorTest : public ::testing::Test {
 protected:
  using Write = std::function<Status(std::size_t)>;

  void start(ExecutorOptions options) {
    executor.emplace(clock, metrics, options, [this](const auto& key) { end(key); });
  }

  void submit(const api::ObjectKey& key, std::size_t count, Write write = {}, Priority priority = Priority::kBulk,
              std::set<std::size_t> barriers = {}) {
    executor->submit({.key = key,
                      .priority = priority,
                      .count = count,
                      .write = [this, key, write = std::move(write)](std::size_t i) -> Status {
                        {
                          const std::lock_guard guard(mutex);
                          made.push_back(key.name + std::to_string(i));
                        }
                        return write ? write(i) : Status();
                      },
                      .barriers = std::move(barriers),
                      .done =
                          [this, key](const std::optional<Error>& error) {
                            const std::lock_guard guard(mutex);
                            errors[key.name] = error;
                          }});
  }
  void end(const api::ObjectKey& key) {
    const std::lock_guard guard(mutex);
    ended.insert(key.name);
    changed.notify_all();
  }
  bool ends(const api::ObjectKey& key, milliseconds patience = seconds(20)) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, [&] { return ended.contains(key.name); });
  }
  std::size_t writes() {
    const std::lock_guard guard(mutex);
    return made.size();
  }
  std::ptrdiff_t place(const std::string& write) {
    const std::lock_guard guard(mutex);
    return std::find(made.begin(), made.end(), write) - made.begin();
  }

  Clock& clock = SystemClock::instance();
  MetricsRegistry metrics;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> made;
  std::map<std::string, std::optional<Error>> errors;
  std::set<std::string> ended;
  std::optional<Executor> executor;  // last: its threads use all of the above
};

TEST_F(ExecutorTest, every_write_of_a_batch_is_made_once) {
  start({});
  submit(kA, 500);
  ASSERT_TRUE(ends(kA));
  EXPECT_EQ(writes(), 500u);
  EXPECT_EQ(std::set<std::string>(made.begin(), made.end()).size(), 500u);
  EXPECT_FALSE(errors["a"]);
  EXPECT_FALSE(executor->busy(kA));
}

TEST_F(ExecutorTest, a_batch_stops_at_its_first_error) {
  start({.most = 1, .first = 1});  // one write at a time: none is under way when the error comes
  submit(kA, 500, [](std::size_t i) -> Status {
    if (i == 10) return fail(ErrorCode::kUnavailable, "away");
    return {};
  });
  ASSERT_TRUE(ends(kA));
  ASSERT_TRUE(errors["a"]);
  EXPECT_EQ(errors["a"]->code, ErrorCode::kUnavailable);
  EXPECT_EQ(writes(), 11u);
}

TEST_F(ExecutorTest, writes_under_way_end_before_a_failed_batch_does) {
  start({.most = 4, .first = 4});
  std::promise<void> failed;
  std::shared_future<void> after = failed.get_future().share();
  std::atomic<int> finished = 0;
  submit(kA, 4, [&](std::size_t i) -> Status {
    if (i == 0) {
      failed.set_value();
      return fail(ErrorCode::kUnavailable, "away");
    }
    if (after.wait_for(seconds(20)) == std::future_status::ready) ++finished;
    return {};
  });
  ASSERT_TRUE(ends(kA));
  ASSERT_TRUE(errors["a"]);
  EXPECT_EQ(finished, static_cast<int>(writes()) - 1);
}

TEST_F(ExecutorTest, failed_writes_are_counted_by_their_code) {
  start({.most = 1, .first = 1});
  bool deferred = false;
  submit(kA, 3, [&](std::size_t i) -> Status {
    if (i == 1) return fail(ErrorCode::kUnavailable, "nobody answers");
    if (std::exchange(deferred, true)) return {};
    Error busy{ErrorCode::kTooManyRequests, "wait"};
    busy.retry_after_seconds = 0.1;
    return busy;
  });
  ASSERT_TRUE(ends(kA));
  const std::string text = metrics.text();
  for (const char* code : {"unavailable", "too_many_requests"}) {
    const auto line = std::string("lockstep_bulk_write_failures_total{code=\"") + code + "\"} 1\n";
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST_F(ExecutorTest, a_barrier_waits_for_all_writes_before_it) {
  start({.most = 8, .first = 8});
  std::atomic<int> under_way = 0;
  std::atomic<bool> alone = true;
  submit(kA, 40,
         [&](std::size_t i) -> Status {
           ++under_way;
           std::this_thread::sleep_for(milliseconds(1));
           if (i == 20 && under_way != 1) alone = false;
           --under_way;
           return {};
         },
         Priority::kBulk, {20, 21});
  ASSERT_TRUE(ends(kA));
  EXPECT_TRUE(alone);
}

TEST_F(ExecutorTest, a_small_batch_does_not_wait_for_a_large_one) {
  start({.most = 1, .first = 1});
  std::promise<void> go;
  auto gone = go.get_future().share();
  submit(kA, 1000, [gone](std::size_t) -> Status { return gone.wait(), Status(); });
  submit(kB, 5);
  submit(kC, 5);
  go.set_value();
  ASSERT_TRUE(ends(kA));
  EXPECT_LT(place("b4"), 20) << "every third write";
  EXPECT_LT(place("c4"), 20);
}

TEST_F(ExecutorTest, repair_goes_before_bulk) {
  start({.most = 1, .first = 1});
  std::promise<void> go;
  auto gone = go.get_future().share();
  submit(kA, 1000, [gone](std::size_t i) -> Status { return i == 0 ? (gone.wait(), Status()) : Status(); });
  while (writes() == 0) std::this_thread::yield();
  submit(kB, 50, {}, Priority::kRepair);
  ASSERT_TRUE(ends(kB)) << "beside a bulk write that takes long: repair has one request more than the limit";
  go.set_value();
  ASSERT_TRUE(ends(kA));
}

TEST_F(ExecutorTest, a_write_that_the_server_defers_is_made_again) {
  start({.most = 4, .first = 4});
  std::atomic<int> refused = 0;
  const auto begin = clock.now();
  submit(kA, 20, [&](std::size_t i) -> Status {
    if (i == 7 && refused++ == 0) return Error{ErrorCode::kTooManyRequests, "later", 0.3};
    return {};
  });
  ASSERT_TRUE(ends(kA));
  EXPECT_FALSE(errors["a"]);
  EXPECT_EQ(writes(), 21u);
  EXPECT_GE(clock.now() - begin, milliseconds(300)) << "the server asked for it";
}

TEST_F(ExecutorTest, no_write_begins_after_an_interruption) {
  start({.most = 1, .first = 1});
  std::promise<void> go;
  auto gone = go.get_future().share();
  submit(kA, 100, [gone](std::size_t) -> Status { return gone.wait(), Status(); });
  submit(kB, 100);
  while (writes() == 0) std::this_thread::yield();
  executor->interrupt(kA);
  executor->interrupt(kB);
  executor->interrupt(kC);  // has none
  EXPECT_TRUE(executor->busy(kA));
  go.set_value();
  ASSERT_TRUE(ends(kA));
  ASSERT_TRUE(ends(kB)) << "one that never began ends as well";
  EXPECT_EQ(writes(), 1u);
  EXPECT_FALSE(errors["a"]);
}

TEST_F(ExecutorTest, a_batch_ends_after_its_slice) {
  start({.most = 1, .first = 1, .slice = milliseconds(50)});
  submit(kA, 1000, [](std::size_t) -> Status { return std::this_thread::sleep_for(milliseconds(5)), Status(); });
  ASSERT_TRUE(ends(kA));
  EXPECT_LT(writes(), 100u);
  EXPECT_FALSE(errors["a"]);
  submit(kB, 3);
  EXPECT_TRUE(ends(kB));
}

TEST_F(ExecutorTest, a_write_that_never_ends_is_unhealthy_and_slow_ones_are_not) {
  ManualClock manual;
  executor.emplace(manual, metrics, ExecutorOptions{.most = 1, .first = 1, .slice = std::chrono::hours(1)},
                   [this](const auto& key) { end(key); });
  std::promise<void> go;
  auto gone = go.get_future().share();
  submit(kA, 100, [&](std::size_t i) -> Status {
    if (i == 99) gone.wait();
    manual.advance(seconds(10));  // a call's deadline
    return {};
  });
  while (writes() < 100) EXPECT_TRUE(executor->healthy()) << "each write ends";
  manual.advance(seconds(120));
  EXPECT_FALSE(executor->healthy());
  go.set_value();
  ASSERT_TRUE(ends(kA));
  EXPECT_TRUE(executor->healthy());
  executor.reset();
}

TEST_F(ExecutorTest, stop_waits_for_what_is_under_way_and_begins_nothing) {
  start({.most = 2, .first = 2});
  std::atomic<int> under_way = 0;
  submit(kA, 1000, [&](std::size_t) -> Status {
    ++under_way;
    std::this_thread::sleep_for(milliseconds(5));
    --under_way;
    return {};
  });
  while (writes() < 5) std::this_thread::yield();
  executor->stop();
  EXPECT_EQ(under_way, 0);
  const auto made_by_then = writes();
  submit(kB, 5);
  EXPECT_EQ(writes(), made_by_then);
  EXPECT_LT(made_by_then, 1000u);
}

// Their stacks would stay resident after the one large job of the day.
TEST_F(ExecutorTest, threads_end_when_nothing_was_written_for_a_while) {
  start({.most = 8, .first = 8, .idle = milliseconds(50)});
  std::promise<void> all_inside;
  std::atomic<int> inside = 0, busy = 0;
  submit(kA, 8, [&, reached = all_inside.get_future().share()](std::size_t) -> Status {
    if (++inside == 8) {
      busy = executor->threads();
      all_inside.set_value();
    }
    reached.wait();
    return {};
  });
  ASSERT_TRUE(ends(kA));
  EXPECT_GE(busy, 8);
  const auto patience = std::chrono::steady_clock::now() + seconds(20);
  while (executor->threads() > 1 && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
  EXPECT_EQ(executor->threads(), 1);
  submit(kB, 100);
  EXPECT_TRUE(ends(kB));
}

TEST_F(ExecutorTest, without_threads_a_batch_is_carried_out_at_once) {
  start({.most = 0});
  submit(kA, 5);
  EXPECT_EQ(made, (std::vector<std::string>{"a0", "a1", "a2", "a3", "a4"}));
  EXPECT_TRUE(ended.contains("a"));
}

}  // namespace
}  // namespace lockstep::job::executor_test
