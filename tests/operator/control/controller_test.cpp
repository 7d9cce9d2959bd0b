// OwnWrites and Controller: when a key may be reconciled, and what becomes of the result.
#include "operator/control/controller.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

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
  EXPECT_TRUE(writes.ready(kJob));  // what was seen once is seen
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
  bool has_synced() const override { return synced; }
};

class ControllerTest : public ::testing::Test {
 protected:
  using Outcome = Result<std::optional<Duration>>;

  void start(std::function<Outcome(const ObjectKey&)> reconcile) {
    controller = std::make_unique<Controller>(
        queue, writes, std::vector<const cache::Synced*>{&cache}, clock, metrics, options,
        [this, reconcile = std::move(reconcile)](const ObjectKey& key) {
          {
            const std::lock_guard guard(mutex);
            ++runs[key.name];
          }
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
  // A test whose reconcile uses its local variables stops the controller before they go.
  // True once the job has run `times`; time passes meanwhile when `step` is given.
  bool ran(int times, Duration step = {}) {
    for (int i = 0; i < 1500 && count() < times; ++i) {
      if (step > Duration::zero()) clock.advance(step);
      std::this_thread::sleep_for(milliseconds(2));
    }
    return count() >= times;
  }
  // True when it does not run again for a while.
  bool rests(int at, Duration step) {
    for (int i = 0; i < 40; ++i) {
      clock.advance(step);
      std::this_thread::sleep_for(milliseconds(2));
    }
    return count() == at;
  }

  ManualClock clock;
  MetricsRegistry metrics;
  WorkQueue queue{clock, metrics};
  OwnWrites writes{clock};
  FakeCache cache;
  ControllerOptions options{.resync = Duration::zero()};
  std::mutex mutex;
  std::map<std::string, int> runs;
  std::unique_ptr<Controller> controller;
};

TEST_F(ControllerTest, nothing_runs_before_every_cache_is_complete) {
  cache.synced = false;
  start([](const ObjectKey&) -> Outcome { return std::optional<Duration>(); });
  queue.add(kJob);
  EXPECT_TRUE(rests(0, milliseconds(50)));
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
  std::this_thread::sleep_for(milliseconds(20));
  clock.advance(seconds(29));
  std::this_thread::sleep_for(milliseconds(20));
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

TEST_F(ControllerTest, failures_and_conflicts_are_tried_again_and_an_exception_is_a_failure) {
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
  for (const char* result : {"success", "unavailable", "conflict", "internal"}) {
    EXPECT_NE(text.find(std::string("lockstep_operator_reconcile_total{result=\"") + result + "\"} 1"),
              std::string::npos)
        << result;
  }
}

TEST_F(ControllerTest, a_write_that_the_fence_refused_is_tried_again_within_a_second) {
  std::atomic<bool> leads = false;
  start([&](const ObjectKey&) -> Outcome {
    if (!leads) return fail(ErrorCode::kCancelled, "the renewal is late");
    return std::optional<Duration>();
  });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  EXPECT_TRUE(ran(20, milliseconds(100)));  // however long the renewal takes
  leads = true;
  const int before = count();
  EXPECT_TRUE(ran(before + 1, milliseconds(100)));
  EXPECT_TRUE(rests(count(), seconds(1)));
  controller->stop();
}

TEST_F(ControllerTest, a_server_that_asks_to_wait_is_obeyed) {
  start([](const ObjectKey&) -> Outcome { return Error{ErrorCode::kTooManyRequests, "slow down", 20.0}; });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  std::this_thread::sleep_for(milliseconds(20));
  clock.advance(seconds(19));
  std::this_thread::sleep_for(milliseconds(20));
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
    for (int wait = 0; wait < 1000 && count(std::to_string(i)) == 0; ++wait)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(count(std::to_string(i)), 1);
  }
}

TEST_F(ControllerTest, every_key_comes_again_by_the_resync) {
  options.resync = std::chrono::hours(1);
  start([](const ObjectKey&) -> Outcome { return std::optional<Duration>(); });
  EXPECT_TRUE(ran(2, std::chrono::minutes(10)));
}

TEST_F(ControllerTest, a_stuck_reconcile_is_unhealthy) {
  std::atomic<bool> go = false;
  start([&](const ObjectKey&) -> Outcome {
    while (!go) std::this_thread::sleep_for(milliseconds(1));
    return std::optional<Duration>();
  });
  queue.add(kJob);
  ASSERT_TRUE(ran(1));
  EXPECT_TRUE(controller->healthy());
  clock.advance(std::chrono::minutes(6));
  EXPECT_FALSE(controller->healthy());
  go = true;
  controller->stop();
}

TEST_F(ControllerTest, stop_waits_for_the_running_reconcile_and_starts_no_other) {
  std::atomic<bool> ended = false;
  start([&](const ObjectKey&) -> Outcome {
    std::this_thread::sleep_for(milliseconds(100));
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
