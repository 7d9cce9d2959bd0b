// OwnWrites and Controller: when a key may be reconciled, and what follows from the result.
#include "operator/control/controller.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

namespace lockstep::control {
namespace {

using api::ObjectKey;
using std::chrono::milliseconds;
using std::chrono::seconds;

const ObjectKey kJob{"x", "job"};

class OwnWritesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    writes.add_cache("Pod",
                     {[this] { return observed; }, [this](const std::string& uid) { return living.contains(uid); }});
  }
  ManualClock clock;
  OwnWrites writes{clock};
  std::string observed = "100";
  std::set<std::string> living;
};

TEST_F(OwnWritesTest, a_job_waits_until_the_cache_has_seen_its_newest_write) {
  EXPECT_TRUE(writes.ready(kJob));
  writes.wrote(kJob, "Pod", "120");
  writes.wrote(kJob, "Pod", "99");  // an answer that came late
  EXPECT_FALSE(writes.ready(kJob));
  observed = "119";
  EXPECT_FALSE(writes.ready(kJob));
  EXPECT_TRUE(writes.ready({"x", "other"}));
  observed = "1000";
  EXPECT_TRUE(writes.ready(kJob));
  observed = "100";
  EXPECT_TRUE(writes.ready(kJob));  // a write that was seen once stays seen
}

TEST_F(OwnWritesTest, an_empty_cache_has_seen_nothing) {
  observed = "";
  writes.wrote(kJob, "Pod", "1");
  EXPECT_FALSE(writes.ready(kJob));
}

TEST_F(OwnWritesTest, a_delete_waits_until_the_uid_is_gone_or_going) {
  living = {"u1", "u2"};
  writes.deleted(kJob, "Pod", "u1");
  EXPECT_FALSE(writes.ready(kJob));
  living.erase("u1");
  EXPECT_TRUE(writes.ready(kJob));
}

TEST_F(OwnWritesTest, kinds_without_a_cache_are_not_waited_for) {
  writes.wrote(kJob, "Service", "999");
  writes.deleted(kJob, "Service", "u");
  EXPECT_TRUE(writes.ready(kJob));
}

TEST_F(OwnWritesTest, an_expectation_that_is_never_met_is_dropped_after_minutes) {
  writes.wrote(kJob, "Pod", "999");
  clock.advance(seconds(299));
  EXPECT_FALSE(writes.ready(kJob));
  clock.advance(seconds(2));
  EXPECT_TRUE(writes.ready(kJob));
}

TEST_F(OwnWritesTest, a_view_of_a_store_sees_terminating_objects_as_gone) {
  struct Thing {
    api::ObjectMeta meta;
  };
  cache::Store<Thing> store;
  writes.add_cache("Thing", view_of(store));
  writes.deleted(kJob, "Thing", "u");
  writes.wrote(kJob, "Thing", "4");
  Thing thing;
  thing.meta.name = "t";
  thing.meta.uid = "u";
  store.put(thing, "5");
  EXPECT_FALSE(writes.ready(kJob));
  thing.meta.deleted = clock.wall_now();
  store.put(thing, "6");
  EXPECT_TRUE(writes.ready(kJob));
}

struct FakeCache final : cache::Synced {
  std::atomic<bool> synced = true;
  mutable std::atomic<int> asked = 0;
  bool has_synced() const override {
    ++asked;
    return synced;
  }
};

class ControllerTest : public ::testing::Test {
 protected:
  using Outcome = Result<std::optional<Duration>>;

  void start(std::function<Outcome(const ObjectKey&)> reconcile) {
    controller = std::make_unique<Controller>(
        queue, writes, std::vector<const cache::Synced*>{&cache}, clock, metrics, options,
        [this, reconcile = std::move(reconcile)](const ObjectKey& key) -> Outcome {
          {
            const std::lock_guard guard(mutex);
            ++runs[key.name];
            changed.notify_all();
          }
          if (key.name.starts_with(kCanary)) return std::optional<Duration>();
          return reconcile(key);
        },
        [] { return std::vector<ObjectKey>{kJob}; });
    controller->start();
  }
  void TearDown() override {
    if (controller) controller->stop();
  }
  int count(const std::string& name = "job") {
    const std::lock_guard guard(mutex);
    return runs[name];
  }
  // Waits for the reconciles of a key; false after some seconds.
  bool ran_of(const std::string& name, int times) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, seconds(10), [&] { return runs[name] >= times; });
  }
  // True once `condition` holds; time passes by `step` until then.
  bool holds(Duration step, const std::function<bool()>& condition) {
    for (int i = 0; i < 3000; ++i) {
      if (condition()) return true;
      clock.advance(step);
      std::unique_lock lock(mutex);
      changed.wait_for(lock, milliseconds(2));
    }
    return false;
  }
  // A test whose reconcile uses its local variables stops the controller before they are destroyed.
  // True once the job has run `times`; time passes meanwhile when `step` is given.
  bool ran(int times, Duration step = {}) {
    if (step == Duration::zero()) return ran_of("job", times);
    return holds(step, [&] { return count() >= times; });
  }
  // Every key that was due has been reconciled and given back. One worker takes keys in their order: the first canary
  // makes it check which keys are due, and the second is queued behind those.
  void settle() {
    for (int round = 0; round < 2; ++round) {
      const std::string canary = kCanary + std::to_string(++canaries);
      queue.add({"x", canary});
      ASSERT_TRUE(ran_of(canary, 1));
    }
  }
  // True when it does not run again in forty steps.
  bool rests(int at, Duration step) {
    for (int i = 0; i < 40; ++i) {
      clock.advance(step);
      settle();
    }
    return count() == at;
  }

  static constexpr const char* kCanary = "canary-";
  ManualClock clock;
  MetricsRegistry metrics;
  WorkQueue queue{clock, metrics};
  OwnWrites writes{clock};
  FakeCache cache;
  ControllerOptions options{.workers = 1, .resync = Duration::zero()};
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, int> runs;
  int canaries = 0;
  std::unique_ptr<Controller> controller;
};

TEST_F(ControllerTest, nothing_runs_before_every_cache_is_complete) {
  cache.synced = false;
  start([](const ObjectKey&) -> Outcome { return std::optional<Duration>(); });
  queue.add(kJob);
  EXPECT_TRUE(holds(milliseconds(50), [&] { return cache.asked > 20; }));
  EXPECT_EQ(count(), 0);
  EXPECT_FALSE(controller->caches_synced());
  cache.synced = true;
  EXPECT_TRUE(ran(1, milliseconds(50)));
}

TEST_F(ControllerTest, a_job_is_not_decided_again_before_its_own_writes_are_seen) {
  std::atomic<int> observed = 1;
  writes.add_cache("Pod", {[&] { return std::to_string(observed); }, [](const std::string&) { return false; }});
  start([this](const ObjectKey& key) -> Outcome {
    writes.wrote(key, "Pod", "5");
    return std::optional<Duration>();
  });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  queue.add(kJob);
  EXPECT_TRUE(rests(1, milliseconds(50)));
  observed = 5;
  EXPECT_TRUE(ran(2, milliseconds(50)));
  controller->stop();
}

TEST_F(ControllerTest, a_requested_time_is_kept) {
  start([](const ObjectKey&) -> Outcome { return std::optional<Duration>(seconds(30)); });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  settle();
  clock.advance(seconds(29));
  settle();
  EXPECT_EQ(count(), 1);
  clock.advance(seconds(2));
  EXPECT_TRUE(ran(2));
}

TEST_F(ControllerTest, an_invalid_job_waits_for_a_change) {
  start([](const ObjectKey&) -> Outcome { return fail(ErrorCode::kInvalid, "no such thing"); });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  EXPECT_TRUE(rests(1, seconds(10)));
  queue.add(kJob);
  EXPECT_TRUE(ran(2));
}

TEST_F(ControllerTest, failures_and_conflicts_are_retried_and_an_exception_is_a_failure) {
  std::atomic<int> n = 0;
  start([&](const ObjectKey&) -> Outcome {
    switch (n++) {
      case 0:
        return fail(ErrorCode::kUnavailable, "away");
      case 1:
        return fail(ErrorCode::kConflict, "changed");
      case 2:
        throw std::runtime_error("surprise");
      default:
        return std::optional<Duration>();
    }
  });
  queue.add(kJob);
  EXPECT_TRUE(ran(4, milliseconds(50)));
  EXPECT_TRUE(rests(4, seconds(1)));
  controller->stop();
  const std::string text = metrics.text();
  for (const char* counted : {"success\"}", "unavailable\"} 1\n", "conflict\"} 1\n", "internal\"} 1\n"}) {
    EXPECT_NE(text.find(std::string("lockstep_operator_reconcile_total{result=\"") + counted), std::string::npos)
        << counted;
  }
}

TEST_F(ControllerTest, a_write_that_the_fence_refused_is_tried_again_within_a_second) {
  std::atomic<bool> leads = false, succeeded = false;
  start([&](const ObjectKey&) -> Outcome {
    if (!leads) return fail(ErrorCode::kCancelled, "the renewal is late");
    succeeded = true;
    return std::optional<Duration>();
  });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  EXPECT_TRUE(ran(20, milliseconds(100)));  // however long the renewal takes
  leads = true;
  EXPECT_TRUE(holds(milliseconds(100), [&] { return succeeded.load(); }));
  EXPECT_TRUE(rests(count(), seconds(1)));
  controller->stop();
}

TEST_F(ControllerTest, a_server_that_asks_to_wait_is_obeyed) {
  start([](const ObjectKey&) -> Outcome { return Error{ErrorCode::kTooManyRequests, "slow down", 20.0}; });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  settle();
  clock.advance(seconds(19));
  settle();
  EXPECT_EQ(count(), 1);
  clock.advance(seconds(2));
  EXPECT_TRUE(ran(2));
}

TEST_F(ControllerTest, one_poisoned_job_does_not_hold_up_the_others) {
  start([](const ObjectKey& key) -> Outcome {
    if (key == kJob) return fail(ErrorCode::kUnavailable, "always");
    return std::optional<Duration>();
  });
  queue.add(kJob);
  for (int i = 0; i < 100; ++i) queue.add({"x", std::to_string(i)});
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(ran_of(std::to_string(i), 1));
    EXPECT_EQ(count(std::to_string(i)), 1);
  }
}

TEST_F(ControllerTest, every_key_comes_again_by_the_resync) {
  options.resync = std::chrono::hours(1);
  start([](const ObjectKey&) -> Outcome { return std::optional<Duration>(); });
  EXPECT_TRUE(ran(2, std::chrono::minutes(10)));
}

TEST_F(ControllerTest, a_stuck_reconcile_is_unhealthy) {
  std::promise<void> go;
  start([gone = go.get_future().share()](const ObjectKey&) -> Outcome {
    gone.wait();
    return std::optional<Duration>();
  });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  EXPECT_TRUE(controller->healthy());
  clock.advance(std::chrono::minutes(6));
  EXPECT_FALSE(controller->healthy());
  go.set_value();
  controller->stop();
}

TEST_F(ControllerTest, stop_waits_for_the_running_reconcile_and_starts_no_other) {
  std::atomic<bool> ended = false;
  start([&](const ObjectKey&) -> Outcome {
    while (!queue.shutting_down()) std::this_thread::yield();  // until stop() has begun
    ended = true;
    return std::optional<Duration>();
  });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  queue.add(kJob);
  controller->stop();
  EXPECT_TRUE(ended);
  EXPECT_EQ(count(), 1);
}

}  // namespace
}  // namespace lockstep::control
