// The rules by which a failed attempt is followed by another, as tables.
#include "operator/job/restart_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lockstep::job::restart_policy_test {
namespace {

using namespace std::chrono_literals;
using api::Attempt;
using api::RendezvousKind;
using api::RuleAction;

const WallTime kNow{std::chrono::seconds(1'700'000'000)};

Attempt failure(api::Cause cause, std::optional<int> exit_code = {}, std::int64_t step = 0) {
  Attempt attempt;
  attempt.cause = cause;
  attempt.exit_code = exit_code;
  attempt.step = step;
  attempt.strategy = api::Strategy::kInPlace;
  attempt.end_time = kNow;
  return attempt;
}

Attempt counted_at(WallTime end, std::int64_t step = 0) {
  Attempt attempt = failure(api::Cause::kProcessSignal, 137, step);
  attempt.counted = true;
  attempt.end_time = end;
  return attempt;
}

// What the status remembers after `attempts`, judged at `now`.
api::RestartsStatus after(const std::vector<Attempt>& attempts, WallTime now = kNow,
                          const api::TrainingJobSpec& spec = {}) {
  api::RestartsStatus restarts;
  for (const Attempt& attempt : attempts) note_restart(spec, attempt, now, restarts);
  return restarts;
}

struct Row {
  const char* what;
  RendezvousKind kind;
  Attempt failure;
  bool restart;
  bool counted;
  const char* reason;
};

TEST(RestartPolicy, exit_codes_and_causes_decide) {
  const auto kLockstep = RendezvousKind::kLockstep;
  const auto kTorch = RendezvousKind::kTorch;
  const auto kNone = RendezvousKind::kNone;
  const Row rows[] = {
      {"own error of our trainer", kLockstep, failure(api::Cause::kProcessExit, 1), false, false, "PermanentExitCode"},
      {"usage", kLockstep, failure(api::Cause::kProcessExit, 64), false, false, "PermanentExitCode"},
      {"data", kLockstep, failure(api::Cause::kProcessExit, 65), false, false, "PermanentExitCode"},
      {"diverged", kLockstep, failure(api::Cause::kProcessExit, 84), false, false, "PermanentExitCode"},
      {"try again", kLockstep, failure(api::Cause::kProcessExit, 75), true, true, ""},
      {"a peer went away", kLockstep, failure(api::Cause::kProcessExit, 80), true, true, ""},
      {"watchdog", kLockstep, failure(api::Cause::kProcessExit, 82), true, true, ""},
      {"stopped on request", kLockstep, failure(api::Cause::kProcessExit, 83), true, false, ""},
      {"segmentation fault", kLockstep, failure(api::Cause::kProcessSignal, 139), true, true, ""},
      {"killed", kLockstep, failure(api::Cause::kProcessSignal, 137), true, true, ""},
      {"127 of our trainer", kLockstep, failure(api::Cause::kProcessExit, 127), false, false, "PermanentExitCode"},
      {"own error of a foreign program", kTorch, failure(api::Cause::kProcessExit, 1), true, true, ""},
      {"not executable", kTorch, failure(api::Cause::kProcessExit, 126), false, false, "PermanentExitCode"},
      {"not found", kNone, failure(api::Cause::kProcessExit, 127), false, false, "PermanentExitCode"},
      {"command not found", kNone, failure(api::Cause::kCommandNotFound), false, false, "CommandNotFound"},
      {"pod deleted", kTorch, failure(api::Cause::kPodDeleted), true, false, ""},
      {"pod deleted with a code", kLockstep, failure(api::Cause::kPodDeleted, 1), true, false, ""},
      {"node lost", kLockstep, failure(api::Cause::kNodeLost), true, false, ""},
      {"preempted", kLockstep, failure(api::Cause::kPreempted), true, false, ""},
      {"evicted", kLockstep, failure(api::Cause::kEvicted), true, false, ""},
      {"stopped", kLockstep, failure(api::Cause::kStopped, 143), true, false, ""},
      {"pod failed", kLockstep, failure(api::Cause::kPodFailed, 1), true, true, ""},
      {"out of memory, first time", kLockstep, failure(api::Cause::kOomKilled, 137), true, true, ""},
      {"a word that only an agent knows", kTorch, failure(api::Cause::kProcessFailed, 83), true, true, ""},
      {"ranks of two kinds", kLockstep, failure(api::Cause::kIdentityMismatch), false, false, "IdentityMismatch"},
      {"port in use", kTorch, failure(api::Cause::kPortInUse), true, true, ""},
      {"start timeout", kTorch, failure(api::Cause::kStartTimeout), true, true, ""},
      {"hung, and ended for its stack", kLockstep, failure(api::Cause::kHang, 134), true, true, ""},
      {"agent fell silent", kTorch, failure(api::Cause::kMemberLost), true, false, ""},
  };
  for (const auto& row : rows) {
    api::TrainingJobSpec spec;
    spec.rendezvous.kind = row.kind;
    const auto verdict = judge_failure(spec, {}, row.failure, kNow);
    EXPECT_EQ(verdict.restart, row.restart) << row.what;
    EXPECT_EQ(verdict.counted, row.counted) << row.what;
    EXPECT_EQ(verdict.reason, row.reason) << row.what;
    EXPECT_FALSE(verdict.explanation.empty()) << row.what;
  }
}

TEST(RestartPolicy, every_verdict_says_by_which_rule) {
  api::TrainingJobSpec spec;
  spec.restart.max_restarts = 5;
  spec.restart.window_seconds = 60;
  const api::RestartsStatus status = after({counted_at(kNow)});
  EXPECT_EQ(judge_failure(spec, status, failure(api::Cause::kProcessSignal, 137), kNow).explanation,
            "restart 2 of restart.maxRestarts (5) within 60 s");
  EXPECT_EQ(judge_failure(spec, status, failure(api::Cause::kNodeLost), kNow).explanation,
            "not the job's doing, so not counted");
  spec.restart.rules = {
      {.on_reasons = {"NodeLost"}, .on_exit_codes = {}, .action = RuleAction::kFail, .counts_towards_max = true},
      {.on_reasons = {"Hang"}, .on_exit_codes = {}, .action = RuleAction::kRestart, .counts_towards_max = false},
      {.on_reasons = {}, .on_exit_codes = {9}, .action = RuleAction::kRestart, .counts_towards_max = true}};
  EXPECT_EQ(judge_failure(spec, status, failure(api::Cause::kNodeLost), kNow).explanation,
            "restart.rules[0] says Fail");
  EXPECT_EQ(judge_failure(spec, status, failure(api::Cause::kHang), kNow).explanation,
            "restart.rules[1] says Restart, not counted");
  EXPECT_EQ(judge_failure(spec, status, failure(api::Cause::kProcessExit, 9), kNow).explanation,
            "restart.rules[2] says Restart: restart 2 of restart.maxRestarts (5) within 60 s");
}

TEST(RestartPolicy, the_first_rule_that_matches_wins) {
  api::TrainingJobSpec spec;
  spec.restart.max_restarts = 0;
  spec.restart.rules = {
      {.on_reasons = {"NodeLost"}, .on_exit_codes = {}, .action = RuleAction::kFail, .counts_towards_max = true},
      {.on_reasons = {}, .on_exit_codes = {7}, .action = RuleAction::kRestart, .counts_towards_max = false},
      {.on_reasons = {"ProcessExit"}, .on_exit_codes = {8}, .action = RuleAction::kRestart, .counts_towards_max = true},
      {.on_reasons = {"PodFailed"}, .on_exit_codes = {7, 8}, .action = RuleAction::kFail, .counts_towards_max = true},
  };
  EXPECT_EQ(judge_failure(spec, {}, failure(api::Cause::kNodeLost), kNow).reason, "RestartRule");
  EXPECT_TRUE(judge_failure(spec, {}, failure(api::Cause::kProcessExit, 7), kNow).restart)
      << "a rule makes a permanent code retryable";
  EXPECT_FALSE(judge_failure(spec, {}, failure(api::Cause::kProcessExit, 7), kNow).counted);
  EXPECT_EQ(judge_failure(spec, {}, failure(api::Cause::kProcessExit, 8), kNow).reason, "RestartBudgetExceeded");
  EXPECT_TRUE(judge_failure(spec, {}, failure(api::Cause::kPodFailed, 7), kNow).restart)
      << "the second rule is before the fourth";
  EXPECT_EQ(judge_failure(spec, {}, failure(api::Cause::kPodFailed, 8), kNow).reason, "RestartRule")
      << "both lists must match";
}

TEST(RestartPolicy, a_rule_without_lists_matches_everything) {
  api::TrainingJobSpec spec;
  spec.restart.rules = {
      {.on_reasons = {}, .on_exit_codes = {}, .action = RuleAction::kFail, .counts_towards_max = true}};
  EXPECT_FALSE(judge_failure(spec, {}, failure(api::Cause::kPodDeleted), kNow).restart);
}

TEST(RestartPolicy, the_budget_is_a_sliding_window) {
  api::TrainingJobSpec spec;
  spec.restart.max_restarts = 2;
  spec.restart.window_seconds = 100;
  api::RestartsStatus status = after({counted_at(kNow - 150s), counted_at(kNow - 50s)});
  EXPECT_TRUE(judge_failure(spec, status, failure(api::Cause::kProcessSignal, 137), kNow).restart);
  note_restart(spec, counted_at(kNow - 10s), kNow, status);
  EXPECT_EQ(judge_failure(spec, status, failure(api::Cause::kProcessSignal, 137), kNow).reason,
            "RestartBudgetExceeded");
  EXPECT_TRUE(judge_failure(spec, status, failure(api::Cause::kPodDeleted), kNow).restart) << "not charged to the job";
  EXPECT_TRUE(judge_failure(spec, status, failure(api::Cause::kProcessSignal, 137), kNow + 60s).restart)
      << "the window moved on";
}

TEST(RestartPolicy, more_counted_restarts_than_attempts_are_stored_still_end_the_job) {
  api::TrainingJobSpec spec;
  spec.restart.max_restarts = 15;
  api::RestartsStatus status;
  int restarts = 0;
  for (; restarts < 40; ++restarts) {
    const WallTime now = kNow + std::chrono::seconds(restarts);
    const auto verdict = judge_failure(spec, status, failure(api::Cause::kProcessSignal, 137, restarts), now);
    if (!verdict.restart) break;
    note_restart(spec, counted_at(now, restarts), now, status);
  }
  EXPECT_EQ(restarts, 15);
}

TEST(RestartPolicy, the_window_is_bounded_and_never_counts_too_few) {
  api::TrainingJobSpec spec;
  spec.restart.max_restarts = 10'000;
  spec.restart.window_seconds = 1000;
  api::RestartsStatus restarts;
  std::mt19937 random(1);
  std::vector<WallTime> ends;
  WallTime now = kNow;
  for (int i = 0; i < 2000; ++i) {
    now += std::chrono::seconds(random() % 60);
    note_restart(spec, counted_at(now), now, restarts);
    ends.push_back(now);
    const auto inside = std::count_if(ends.begin(), ends.end(), [&](WallTime end) { return end > now - 1000s; });
    ASSERT_LE(restarts.window->size(), 32u);
    ASSERT_GE(restarts.counted, inside);
    ASSERT_LE(restarts.counted, inside + 8) << "seed 1, restart " << i;
  }
  EXPECT_EQ(counted_restarts(spec, restarts, now + 1000s), 0);
}

TEST(RestartPolicy, a_clock_that_was_set_back_keeps_no_restart_for_longer_than_the_window) {
  api::TrainingJobSpec spec;
  spec.restart.window_seconds = 100;
  api::RestartsStatus restarts = after({counted_at(kNow)}, kNow, spec);
  const WallTime earlier = kNow - 24h;
  EXPECT_EQ(counted_restarts(spec, restarts, earlier), 1);
  note_restart(spec, counted_at(earlier), earlier, restarts);
  EXPECT_EQ(counted_restarts(spec, restarts, earlier + 99s), 2);
  EXPECT_EQ(counted_restarts(spec, restarts, earlier + 100s), 0);
}

TEST(RestartPolicy, a_status_of_an_earlier_version_is_carried_on) {
  api::TrainingJobSpec spec;
  spec.restart.max_restarts = 2;
  api::RestartsStatus restarts{.total = 12, .counted = 2, .last_cause = api::Cause::kProcessSignal};
  Attempt crash = counted_at(kNow - 10s, 40);
  crash.exit_code = 139;
  recall_restarts(spec, {counted_at(kNow - 20s, 40), crash}, kNow, restarts);
  EXPECT_EQ(restarts.total, 12);
  EXPECT_EQ(restarts.charged, 2);
  EXPECT_EQ(restarts.counted, 2);
  EXPECT_EQ(restarts.without_progress, 2);
  EXPECT_EQ(judge_failure(spec, restarts, failure(api::Cause::kProcessSignal, 137, 50), kNow).reason,
            "RestartBudgetExceeded");
  EXPECT_EQ(judge_failure(spec, restarts, failure(api::Cause::kProcessSignal, 139, 40), kNow).reason, "CrashLoop");
}

TEST(RestartPolicy, the_same_step_failing_twice_in_the_same_way_is_a_crash_loop) {
  api::TrainingJobSpec spec;
  api::RestartsStatus status =
      after({failure(api::Cause::kProcessSignal, 139, 40), failure(api::Cause::kPodDeleted, {}, 40)});
  EXPECT_EQ(judge_failure(spec, status, failure(api::Cause::kProcessSignal, 139, 40), kNow).reason, "CrashLoop");
  EXPECT_TRUE(judge_failure(spec, status, failure(api::Cause::kProcessSignal, 139, 41), kNow).restart)
      << "another step";
  EXPECT_TRUE(judge_failure(spec, status, failure(api::Cause::kProcessSignal, 134, 40), kNow).restart)
      << "another code";
  status = after({failure(api::Cause::kProcessSignal, 137, 40)});
  EXPECT_TRUE(judge_failure(spec, status, failure(api::Cause::kProcessSignal, 137, 40), kNow).restart)
      << "SIGKILL is nobody's own";
  status = after({failure(api::Cause::kProcessSignal, 143, 40)});
  EXPECT_TRUE(judge_failure(spec, status, failure(api::Cause::kProcessSignal, 143, 40), kNow).restart)
      << "SIGTERM neither";
  status = after({failure(api::Cause::kProcessExit, 80, 40)});
  EXPECT_TRUE(judge_failure(spec, status, failure(api::Cause::kProcessExit, 80, 40), kNow).restart) << "a peer's fault";
}

TEST(RestartPolicy, a_program_that_reports_no_steps_has_no_crash_loop_by_step) {
  api::TrainingJobSpec spec;
  spec.rendezvous.kind = RendezvousKind::kTorch;
  const api::RestartsStatus status = after({failure(api::Cause::kProcessExit, 1)});
  EXPECT_TRUE(judge_failure(spec, status, failure(api::Cause::kProcessExit, 1), kNow).restart);
}

TEST(RestartPolicy, out_of_memory_is_forgiven_once) {
  const api::RestartsStatus status =
      after({failure(api::Cause::kOomKilled, 137, 10), failure(api::Cause::kPodDeleted)});
  EXPECT_EQ(judge_failure({}, status, failure(api::Cause::kOomKilled, 137, 90), kNow).reason, "OOMKilled");
}

TEST(RestartPolicy, the_first_restart_is_immediate_and_later_ones_back_off) {
  api::TrainingJobSpec spec;
  spec.restart.backoff_initial_seconds = 2;
  spec.restart.backoff_max_seconds = 10;
  api::RestartsStatus restarts;
  EXPECT_EQ(restart_delay(spec, restarts), 0s);
  const Duration expected[] = {0s, 2s, 4s, 8s, 10s, 10s};
  for (const auto delay : expected) {
    note_restart(spec, failure(api::Cause::kProcessSignal, 137, 100), kNow, restarts);
    EXPECT_EQ(restart_delay(spec, restarts), delay) << restarts.total;
  }
  note_restart(spec, failure(api::Cause::kProcessSignal, 137, 101), kNow, restarts);
  EXPECT_EQ(restart_delay(spec, restarts), 0s) << "one more step than ever before is progress";
}

TEST(RestartPolicy, a_long_run_counts_as_progress_where_no_steps_are_reported) {
  api::TrainingJobSpec spec;
  auto quick = failure(api::Cause::kProcessExit, 1);
  quick.start_time = kNow - 1s;
  auto slow = quick;
  slow.start_time = kNow - 11min;
  EXPECT_GT(restart_delay(spec, after({quick, quick})), 0s);
  EXPECT_EQ(restart_delay(spec, after({quick, slow})), 0s);
}

}  // namespace
}  // namespace lockstep::job::restart_policy_test
