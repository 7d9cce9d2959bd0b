#include "operator/control/work_queue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

namespace lockstep::control {
namespace {

using api::ObjectKey;
using std::chrono::milliseconds;
using std::chrono::seconds;

const ObjectKey kA{"x", "a"}, kB{"x", "b"};

class WorkQueueTest : public ::testing::Test {
 protected:
  // The next key, or "" if none is due.
  std::string take() {
    const auto key = queue.take(clock.now());
    return key ? key->name : "";
  }
  ManualClock clock;
  MetricsRegistry metrics;
  WorkQueue queue{clock, metrics};
};

TEST_F(WorkQueueTest, a_key_added_twice_is_handed_out_once) {
  queue.add(kA);
  queue.add(kA);
  EXPECT_EQ(take(), "a");
  EXPECT_EQ(take(), "");
}

TEST_F(WorkQueueTest, a_key_dirtied_while_running_runs_again_but_only_when_it_is_done) {
  queue.add(kA);
  EXPECT_EQ(take(), "a");
  queue.add(kA);
  queue.add(kA);
  EXPECT_EQ(take(), "");
  queue.done(kA);
  EXPECT_EQ(take(), "a");
  queue.done(kA);
  EXPECT_EQ(take(), "");
}

TEST_F(WorkQueueTest, a_hot_key_waits_its_turn) {
  queue.add(kA);
  queue.add(kB);
  EXPECT_EQ(take(), "a");
  queue.add(kA);
  queue.done(kA);
  EXPECT_EQ(take(), "b");
  EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, of_several_delays_the_earliest_counts) {
  queue.add_after(kA, seconds(10));
  queue.add_after(kA, seconds(5));
  queue.add_after(kA, seconds(20));
  EXPECT_EQ(take(), "");
  clock.advance(seconds(5));
  EXPECT_EQ(take(), "a");
  queue.done(kA);
  clock.advance(seconds(60));
  EXPECT_EQ(take(), "");
}

TEST_F(WorkQueueTest, a_waiting_worker_wakes_for_a_delayed_key) {
  std::atomic<bool> got = false;
  std::jthread worker([&] {
    const auto key = queue.take(clock.now() + seconds(60));
    got = key == kA;
  });
  queue.add_after(kA, seconds(30));
  clock.advance(seconds(31));
  worker.join();
  EXPECT_TRUE(got);
}

TEST_F(WorkQueueTest, failures_back_off_twice_as_long_each_time_up_to_a_minute) {
  Duration delay = milliseconds(5);
  for (int failures = 0; failures < 20; ++failures) {
    queue.retry(kA);
    clock.advance(delay - milliseconds(1));
    EXPECT_EQ(take(), "") << failures;
    clock.advance(milliseconds(1));
    EXPECT_EQ(take(), "a") << failures;
    queue.done(kA);
    delay = std::min<Duration>(delay * 2, seconds(60));
  }
  queue.forget(kA);
  queue.retry(kA);
  clock.advance(milliseconds(5));
  EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, a_flood_of_retries_is_spread_and_first_adds_are_not) {
  for (int i = 0; i < 200; ++i) queue.retry({"x", fmt::format("k{}", i)});
  clock.advance(milliseconds(5));
  int at_once = 0;
  while (queue.take(clock.now())) ++at_once;
  EXPECT_EQ(at_once, 100);
  queue.add(kA);
  EXPECT_EQ(take(), "a");
  clock.advance(seconds(5));
  int later = 0;
  while (queue.take(clock.now())) ++later;
  EXPECT_GE(later, 49);
  EXPECT_LE(later, 51);
}

TEST_F(WorkQueueTest, a_burst_costs_a_share_of_a_worker_that_work_bounds) {
  // 1,000 events within a second, of a job whose reconcile takes 10 ms: it rests for 40 ms after each.
  int runs = 0;
  Duration worked{};
  for (int event = 0; event < 1000; ++event) {
    queue.add_soon(kA);
    clock.advance(milliseconds(1));
    if (take() != "a") continue;
    for (int i = 0; i < 10; ++i) {
      queue.add_soon(kA);
      clock.advance(milliseconds(1));
    }
    queue.done(kA);
    ++runs;
    worked += milliseconds(10);
  }
  EXPECT_GE(runs, 20);
  EXPECT_LE(runs, 30) << "and not 1,000";
  clock.advance(seconds(1));
  EXPECT_EQ(take(), "a") << "the last event is not forgotten";
  queue.done(kA);
  clock.advance(seconds(1));
  EXPECT_EQ(take(), "");
}

TEST_F(WorkQueueTest, the_first_event_after_a_rest_is_handed_out_at_once) {
  queue.add_soon(kA);
  EXPECT_EQ(take(), "a");
  clock.advance(milliseconds(10));
  queue.done(kA);
  queue.add_soon(kA);
  clock.advance(milliseconds(39));
  EXPECT_EQ(take(), "");
  clock.advance(milliseconds(1));
  EXPECT_EQ(take(), "a");
  queue.done(kA);
  clock.advance(milliseconds(20));
  queue.add_soon(kA);
  EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, an_urgent_event_does_not_wait_for_a_burst) {
  queue.add(kA);
  EXPECT_EQ(take(), "a");
  queue.add_soon(kA);
  clock.advance(milliseconds(10));
  queue.done(kA);
  queue.add_soon(kA);
  queue.add(kA);
  clock.advance(milliseconds(10));
  EXPECT_EQ(take(), "a") << "after a rest as long as its work, instead of four times that";
  clock.advance(seconds(30));
  queue.done(kA);
  queue.add(kA);
  EXPECT_EQ(take(), "");
  clock.advance(milliseconds(50));
  EXPECT_EQ(take(), "a") << "50 ms at most, however long its work took";
}

TEST_F(WorkQueueTest, an_urgent_event_during_work_overrides_a_soft_one) {
  queue.add(kA);
  EXPECT_EQ(take(), "a");
  queue.add(kA);
  queue.add_soon(kA);
  queue.done(kA);
  EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, shut_down_hands_out_what_is_queued_and_takes_no_more) {
  queue.add(kA);
  queue.add_after(kB, seconds(1));
  queue.shut_down();
  queue.add(kB);
  clock.advance(seconds(2));
  EXPECT_EQ(take(), "a");
  EXPECT_EQ(queue.take(clock.now() + seconds(60)), std::nullopt);
}

TEST_F(WorkQueueTest, shut_down_now_lets_workers_go_at_once) {
  queue.add(kA);
  queue.shut_down_now();
  EXPECT_EQ(queue.take(clock.now() + seconds(60)), std::nullopt);
}

TEST_F(WorkQueueTest, tells_its_depth_and_the_age_of_running_work) {
  queue.add(kA);
  queue.add(kB);
  EXPECT_EQ(queue.depth(), 2U);
  EXPECT_EQ(take(), "a");
  clock.advance(seconds(7));
  EXPECT_EQ(queue.longest_running(), seconds(7));
  EXPECT_NE(metrics.text().find("workqueue_depth{name=\"trainingjob\"} 1"), std::string::npos);
  EXPECT_NE(metrics.text().find("workqueue_adds_total{name=\"trainingjob\"} 2"), std::string::npos);
}

TEST(WorkQueueProperty, a_key_has_one_worker_and_every_last_add_is_followed_by_a_run) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  constexpr int kKeys = 20, kAdders = 4, kWorkers = 8, kAdds = 25'000;
  MetricsRegistry metrics;
  WorkQueue queue(SystemClock::instance(), metrics);
  std::array<std::atomic<int>, kKeys> inside{}, wanted{}, seen{};
  std::atomic<bool> overlap = false;
  std::vector<std::thread> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&, i] {
      std::minstd_rand random(seed + 1000U + static_cast<unsigned>(i));
      while (const auto key = queue.take(std::chrono::steady_clock::now() + seconds(30))) {
        const auto k = static_cast<std::size_t>(std::stoi(key->name));
        if (inside[k].fetch_add(1) != 0) overlap = true;
        seen[k] = wanted[k].load();  // the newest state, as a reconcile reads it
        if (random() % 64 == 0) std::this_thread::yield();
        if (random() % 256 == 0) queue.retry(*key);
        inside[k].fetch_sub(1);
        queue.done(*key);
      }
    });
  }
  std::vector<std::thread> adders;
  for (int i = 0; i < kAdders; ++i) {
    adders.emplace_back([&, i] {
      std::minstd_rand random(seed + static_cast<unsigned>(i));
      for (int n = 0; n < kAdds; ++n) {
        const auto k = random() % kKeys;
        ++wanted[k];
        const ObjectKey key{"x", fmt::format("{}", k)};
        if (random() % 8 == 0) {
          queue.add_after(key, milliseconds(random() % 3));
          queue.add(key);
        } else {
          queue.add(key);
        }
      }
    });
  }
  for (std::thread& adder : adders) adder.join();
  const auto all_seen = [&] {
    for (std::size_t k = 0; k < kKeys; ++k) {
      if (seen[k] != wanted[k]) return false;
    }
    return true;
  };
  const auto deadline = std::chrono::steady_clock::now() + seconds(20);  // a key that rests waits for 50 ms at most
  while (!all_seen() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  queue.shut_down();
  for (std::thread& worker : workers) worker.join();
  EXPECT_FALSE(overlap);
  for (std::size_t k = 0; k < kKeys; ++k) EXPECT_EQ(seen[k], wanted[k]) << "key " << k;
}

}  // namespace
}  // namespace lockstep::control
