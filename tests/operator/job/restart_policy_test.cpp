// The rules by which a failed attempt is followed by another, as tables.
#include "operator/job/restart_policy.h"

#include <gtest/gtest.h>

namespace lockstep::job {
namespace {

using namespace std::chrono_literals;
using api::Attempt;
using api::RendezvousKind;
using api::RuleAction;

const WallTime kNow{std::chrono::seconds(1'700'000'000)};

Attempt failure(std::string cause, std::optional<int> exit_code = {}, std::int64_t step = 0) {
  Attempt attempt;
  attempt.cause = std::move(cause);
  attempt.exit_code = exit_code;
  attempt.step = step;
  attempt.strategy = "InPlace";
  attempt.end_time = kNow;
  return attempt;
}

Attempt counted_at(WallTime end, std::int64_t step = 0) {
  Attempt attempt = failure("ProcessSignal", 137, step);
  attempt.counted = true;
  attempt.end_time = end;
  return attempt;
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
      {"own error of our trainer", kLockstep, failure("ProcessExit", 1), false, false, "PermanentExitCode"},
      {"usage", kLockstep, failure("ProcessExit", 64), false, false, "PermanentExitCode"},
      {"data", kLockstep, failure("ProcessExit", 65), false, false, "PermanentExitCode"},
      {"diverged", kLockstep, failure("ProcessExit", 84), false, false, "PermanentExitCode"},
      {"try again", kLockstep, failure("ProcessExit", 75), true, true, ""},
      {"a peer went away", kLockstep, failure("ProcessExit", 80), true, true, ""},
      {"watchdog", kLockstep, failure("ProcessExit", 82), true, true, ""},
      {"stopped on request", kLockstep, failure("ProcessExit", 83), true, false, ""},
      {"segmentation fault", kLockstep, failure("ProcessSignal", 139), true, true, ""},
      {"killed", kLockstep, failure("ProcessSignal", 137), true, true, ""},
      {"127 of our trainer", kLockstep, failure("ProcessExit", 127), false, false, "PermanentExitCode"},
      {"own error of a foreign program", kTorch, failure("ProcessExit", 1), true, true, ""},
      {"not executable", kTorch, failure("ProcessExit", 126), false, false, "PermanentExitCode"},
      {"not found", kNone, failure("ProcessExit", 127), false, false, "PermanentExitCode"},
      {"command not found", kNone, failure("CommandNotFound"), false, false, "CommandNotFound"},
      {"pod deleted", kTorch, failure("PodDeleted"), true, false, ""},
      {"pod deleted with a code", kLockstep, failure("PodDeleted", 1), true, false, ""},
      {"node lost", kLockstep, failure("NodeLost"), true, false, ""},
      {"preempted", kLockstep, failure("Preempted"), true, false, ""},
      {"evicted", kLockstep, failure("Evicted"), true, false, ""},
      {"stopped", kLockstep, failure("Stopped", 143), true, false, ""},
      {"pod failed", kLockstep, failure("PodFailed", 1), true, true, ""},
      {"out of memory, first time", kLockstep, failure("OOMKilled", 137), true, true, ""},
      {"port in use", kTorch, failure("PortInUse"), true, true, ""},
      {"start timeout", kTorch, failure("StartTimeout"), true, true, ""},
      {"hung, and ended for its stack", kLockstep, failure("Hang", 134), true, true, ""},
      {"agent fell silent", kTorch, failure("MemberLost"), true, false, ""},
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
  api::TrainingJobStatus status;
  status.attempts = {failure("ProcessSignal", 137)};
  status.attempts[0].counted = true;
  status.attempts[0].end_time = kNow;
  EXPECT_EQ(judge_failure(spec, status, failure("ProcessSignal", 137), kNow).explanation,
            "restart 2 of restart.maxRestarts (5) within 60 s");
  EXPECT_EQ(judge_failure(spec, status, failure("NodeLost"), kNow).explanation, "not the job's doing, so not counted");
  spec.restart.rules = {
      {.on_reasons = {"NodeLost"}, .on_exit_codes = {}, .action = RuleAction::kFail, .counts_towards_max = true},
      {.on_reasons = {"Hang"}, .on_exit_codes = {}, .action = RuleAction::kRestart, .counts_towards_max = false},
      {.on_reasons = {}, .on_exit_codes = {9}, .action = RuleAction::kRestart, .counts_towards_max = true}};
  EXPECT_EQ(judge_failure(spec, status, failure("NodeLost"), kNow).explanation, "restart.rules[0] says Fail");
  EXPECT_EQ(judge_failure(spec, status, failure("Hang"), kNow).explanation,
            "restart.rules[1] says Restart, not counted");
  EXPECT_EQ(judge_failure(spec, status, failure("ProcessExit", 9), kNow).explanation,
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
  EXPECT_EQ(judge_failure(spec, {}, failure("NodeLost"), kNow).reason, "RestartRule");
  EXPECT_TRUE(judge_failure(spec, {}, failure("ProcessExit", 7), kNow).restart)
      << "a rule makes a permanent code retryable";
  EXPECT_FALSE(judge_failure(spec, {}, failure("ProcessExit", 7), kNow).counted);
  EXPECT_EQ(judge_failure(spec, {}, failure("ProcessExit", 8), kNow).reason, "RestartBudgetExceeded");
  EXPECT_TRUE(judge_failure(spec, {}, failure("PodFailed", 7), kNow).restart) << "the second rule is before the fourth";
  EXPECT_EQ(judge_failure(spec, {}, failure("PodFailed", 8), kNow).reason, "RestartRule") << "both lists must match";
}

TEST(RestartPolicy, a_rule_without_lists_matches_everything) {
  api::TrainingJobSpec spec;
  spec.restart.rules = {
      {.on_reasons = {}, .on_exit_codes = {}, .action = RuleAction::kFail, .counts_towards_max = true}};
  EXPECT_FALSE(judge_failure(spec, {}, failure("PodDeleted"), kNow).restart);
}

TEST(RestartPolicy, the_budget_is_a_sliding_window) {
  api::TrainingJobSpec spec;
  spec.restart.max_restarts = 2;
  spec.restart.window_seconds = 100;
  api::TrainingJobStatus status;
  status.attempts = {counted_at(kNow - 150s), counted_at(kNow - 50s)};
  EXPECT_TRUE(judge_failure(spec, status, failure("ProcessSignal", 137), kNow).restart);
  status.attempts.push_back(counted_at(kNow - 10s));
  EXPECT_EQ(judge_failure(spec, status, failure("ProcessSignal", 137), kNow).reason, "RestartBudgetExceeded");
  EXPECT_TRUE(judge_failure(spec, status, failure("PodDeleted"), kNow).restart) << "not charged to the job";
  EXPECT_TRUE(judge_failure(spec, status, failure("ProcessSignal", 137), kNow + 60s).restart) << "the window moved on";
}

TEST(RestartPolicy, more_counted_restarts_than_attempts_are_stored_still_end_the_job) {
  api::TrainingJobSpec spec;
  spec.restart.max_restarts = 15;
  api::TrainingJobStatus status;
  int restarts = 0;
  for (; restarts < 40; ++restarts) {
    const WallTime now = kNow + std::chrono::seconds(restarts);
    const auto verdict = judge_failure(spec, status, failure("ProcessSignal", 137, restarts), now);
    if (!verdict.restart) break;
    status.restarts.counted = counted_restarts(spec, status, now) + 1;
    status.attempts.push_back(counted_at(now, restarts));
    if (status.attempts.size() > 10) status.attempts.erase(status.attempts.begin());
  }
  EXPECT_EQ(restarts, 15);
}

TEST(RestartPolicy, the_same_step_failing_twice_in_the_same_way_is_a_crash_loop) {
  api::TrainingJobSpec spec;
  api::TrainingJobStatus status;
  status.attempts = {failure("ProcessSignal", 139, 40), failure("PodDeleted", {}, 40)};
  EXPECT_EQ(judge_failure(spec, status, failure("ProcessSignal", 139, 40), kNow).reason, "CrashLoop");
  EXPECT_TRUE(judge_failure(spec, status, failure("ProcessSignal", 139, 41), kNow).restart) << "another step";
  EXPECT_TRUE(judge_failure(spec, status, failure("ProcessSignal", 134, 40), kNow).restart) << "another code";
  status.attempts = {failure("ProcessSignal", 137, 40)};
  EXPECT_TRUE(judge_failure(spec, status, failure("ProcessSignal", 137, 40), kNow).restart)
      << "SIGKILL is nobody's own";
  status.attempts = {failure("ProcessSignal", 143, 40)};
  EXPECT_TRUE(judge_failure(spec, status, failure("ProcessSignal", 143, 40), kNow).restart) << "SIGTERM neither";
  status.attempts = {failure("ProcessExit", 80, 40)};
  EXPECT_TRUE(judge_failure(spec, status, failure("ProcessExit", 80, 40), kNow).restart) << "a peer's fault";
}

TEST(RestartPolicy, a_program_that_reports_no_steps_has_no_crash_loop_by_step) {
  api::TrainingJobSpec spec;
  spec.rendezvous.kind = RendezvousKind::kTorch;
  api::TrainingJobStatus status;
  status.attempts = {failure("ProcessExit", 1)};
  EXPECT_TRUE(judge_failure(spec, status, failure("ProcessExit", 1), kNow).restart);
}

TEST(RestartPolicy, out_of_memory_is_forgiven_once) {
  api::TrainingJobStatus status;
  status.attempts = {failure("OOMKilled", 137, 10), failure("PodDeleted")};
  EXPECT_EQ(judge_failure({}, status, failure("OOMKilled", 137, 90), kNow).reason, "OOMKilled");
}

TEST(RestartPolicy, the_first_restart_is_immediate_and_later_ones_back_off_until_there_is_progress) {
  api::TrainingJobSpec spec;
  spec.restart.backoff_initial_seconds = 2;
  spec.restart.backoff_max_seconds = 10;
  std::vector<Attempt> attempts;
  EXPECT_EQ(restart_delay(spec, attempts), 0s);
  const Duration expected[] = {0s, 2s, 4s, 8s, 10s, 10s};
  for (const auto delay : expected) {
    attempts.push_back(failure("ProcessSignal", 137, 100));
    EXPECT_EQ(restart_delay(spec, attempts), delay) << attempts.size();
  }
  attempts.push_back(failure("ProcessSignal", 137, 101));
  EXPECT_EQ(restart_delay(spec, attempts), 0s) << "one more step than ever before is progress";
}

TEST(RestartPolicy, a_long_run_counts_as_progress_where_no_steps_are_reported) {
  api::TrainingJobSpec spec;
  auto quick = failure("ProcessExit", 1);
  quick.start_time = kNow - 1s;
  auto slow = quick;
  slow.start_time = kNow - 11min;
  EXPECT_GT(restart_delay(spec, {quick, quick}), 0s);
  EXPECT_EQ(restart_delay(spec, {quick, slow}), 0s);
}

}  // namespace
}  // namespace lockstep::job
