// The budget of restarts over the life of a job: what it forgets, what resets it, and that the status holds all of it.
#include <gtest/gtest.h>

#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_budget_test {
namespace {

using namespace std::chrono_literals;
using rendezvous::Phase;

// A job whose generations fail and are followed by others.
struct Budget : Situation {
  explicit Budget(int max_restarts) {
    job.spec.restart.max_restarts = max_restarts;
    running();
  }

  std::int64_t generation = 1;

  // The running generation ends at `step`; unless that ends the job, the next one is up.
  void fails(api::Cause cause, std::optional<int> exit_code, std::int64_t step) {
    view->progress.step = step;
    broken(generation, cause, 0, exit_code).step = step;
    accept();
    if (is("Failed")) return;
    see(Phase::kUp, ++generation);
    accept();
  }

  void commits(std::int64_t step, std::optional<std::int64_t> checkpoint = {}) {
    view->progress.step = step;
    if (checkpoint) view->newest_checkpoint = {"step", *checkpoint, generation, "digest"};
    accept();
  }

  // Another operator takes over: nothing is left but what the API server stores.
  void another_operator() {
    const auto parsed = api::parse_training_job(api::to_json(job));
    ASSERT_TRUE(parsed) << parsed.error().message;
    job.status = parsed->status;
  }
};

TEST(DecideBudget, failures_of_the_cluster_never_make_own_ones_last) {
  Budget s(3);
  for (int hours = 0; hours < 10; ++hours) {
    for (int i = 0; i < 11; ++i) {
      s.now += 5min;
      s.fails(api::Cause::kConnectionBroken, {}, 10);
    }
    s.now += 10min;
    s.fails(api::Cause::kProcessSignal, 137, 10);
    ASSERT_FALSE(s.is("Failed")) << "after " << hours << " hours: " << s.condition("Failed")->message;
    EXPECT_LE(s.job.status.restarts.counted, 2);
    s.another_operator();
  }
}

TEST(DecideBudget, a_checkpoint_beyond_every_failure_resets_it) {
  Budget s(2);
  for (int i = 1; i <= 6; ++i) {
    s.now += 60s;
    s.fails(api::Cause::kProcessSignal, 137, i * 100);
    ASSERT_FALSE(s.is("Failed")) << i;
    s.now += 60s;
    s.commits(i * 100 + 50, i * 100 + 50);
    EXPECT_EQ(s.job.status.restarts.counted, 0) << i;
    s.another_operator();
  }
  EXPECT_EQ(s.job.status.restarts.total, 6);
  EXPECT_EQ(s.job.status.restarts.charged, 6);
}

TEST(DecideBudget, a_checkpoint_of_before_the_failure_resets_nothing) {
  Budget s(2);
  s.commits(90, 90);
  for (int i = 0; i < 2; ++i) {
    s.now += 60s;
    s.fails(api::Cause::kProcessSignal, 137, 100);
    s.commits(95, 95);
  }
  EXPECT_EQ(s.job.status.restarts.counted, 2);
  s.fails(api::Cause::kProcessSignal, 137, 100);
  EXPECT_EQ(s.reason("Failed"), "RestartBudgetExceeded");
}

TEST(DecideBudget, ten_minutes_of_new_steps_reset_it_without_a_checkpoint) {
  Budget s(1);
  s.fails(api::Cause::kProcessSignal, 137, 100);
  s.now += 9min;
  s.commits(500);
  EXPECT_EQ(s.job.status.restarts.counted, 1) << "new steps, but not for long";
  s.now += 1min;
  s.commits(500);
  EXPECT_EQ(s.job.status.restarts.counted, 0);
  s.fails(api::Cause::kProcessSignal, 137, 501);
  EXPECT_FALSE(s.is("Failed"));
}

TEST(DecideBudget, steps_that_are_done_again_are_no_progress) {
  Budget s(1);
  s.fails(api::Cause::kProcessSignal, 137, 100);
  s.now += 20min;
  s.commits(100);
  EXPECT_EQ(s.job.status.restarts.counted, 1);
  s.fails(api::Cause::kProcessSignal, 137, 100);
  EXPECT_EQ(s.reason("Failed"), "RestartBudgetExceeded");
}

TEST(DecideBudget, without_progress_another_operator_counts_on) {
  Budget s(3);
  for (int i = 0; i < 3; ++i) {
    s.fails(api::Cause::kProcessSignal, 137, 10);
    for (int k = 0; k < 11; ++k) s.fails(api::Cause::kConnectionBroken, {}, 10);
    s.another_operator();
  }
  EXPECT_EQ(s.job.status.restarts.counted, 3);
  EXPECT_FALSE(s.is("Failed"));
  s.fails(api::Cause::kProcessSignal, 137, 10);
  EXPECT_EQ(s.reason("Failed"), "RestartBudgetExceeded");
}

TEST(DecideBudget, a_crash_loop_is_known_through_failures_of_the_cluster) {
  Budget s(10);
  s.fails(api::Cause::kProcessSignal, 139, 40);
  for (int i = 0; i < 12; ++i) s.fails(api::Cause::kConnectionBroken, {}, 40);
  s.another_operator();
  s.fails(api::Cause::kProcessSignal, 139, 40);
  EXPECT_EQ(s.reason("Failed"), "CrashLoop");
}

TEST(DecideBudget, a_job_that_was_suspended_begins_with_a_new_one) {
  Budget s(1);
  s.fails(api::Cause::kProcessSignal, 139, 40);
  s.job.spec.suspend = true;
  s.accept();
  s.pods.clear();
  s.accept();
  EXPECT_EQ(s.job.status.restarts.counted, 0);
  s.job.spec.suspend = false;
  s.see(Phase::kWaiting, s.generation);
  s.accept();
  for (int slot = 0; slot < 2; ++slot) s.pod(slot, s.job.status.incarnation);
  s.see(Phase::kUp, ++s.generation);
  s.accept();
  s.connect();
  s.fails(api::Cause::kProcessSignal, 139, 40);
  EXPECT_FALSE(s.is("Failed"));
}

TEST(DecideBudget, a_restart_waits_no_longer_when_the_clock_is_set_back) {
  Budget s(10);
  s.job.spec.restart.backoff_initial_seconds = 20;
  s.fails(api::Cause::kProcessSignal, 137, 10);
  s.broken(2, api::Cause::kProcessSignal, 0, 137).step = 10;
  EXPECT_EQ(s.accept().coordinator->handled_generation, 1) << "without progress it waits";
  s.now -= 24h;
  EXPECT_EQ(s.plan().coordinator->handled_generation, 2);
}

}  // namespace
}  // namespace lockstep::job::decide_budget_test
