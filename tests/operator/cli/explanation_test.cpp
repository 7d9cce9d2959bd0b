// The output of `lockstep explain`.
#include "operator/cli/explanation.h"

#include <gtest/gtest.h>

#include "operator/base/timestamp.h"

namespace lockstep::cli::explanation_test {
namespace {

WallTime at(const char* text) {
  return parse_timestamp(text).value();
}

api::TrainingJob disturbed() {
  api::TrainingJob job;
  job.meta.name = "big";
  job.spec.restart.max_restarts = 3;
  job.status.state = "Running";
  job.status.nodes.summary = "4/4";
  job.status.world_size = 8;
  job.status.restarts = {.total = 1, .charged = 1, .counted = 1, .last_cause = api::Cause::kProcessSignal};
  job.status.conditions = {{.type = "Running",
                            .status = "True",
                            .reason = "AllRanksUp",
                            .message = "generation 2 runs with 8 ranks",
                            .last_transition = at("2026-11-20T12:00:10Z")}};
  api::Attempt attempt{.generation = 1, .cause = api::Cause::kProcessSignal, .first_failing_rank = 2, .pod = "big-1-1"};
  attempt.node = "n1";
  attempt.exit_code = 139;
  attempt.message = "rank 2 was ended by SIGSEGV\nits last words\n";
  attempt.strategy = api::Strategy::kInPlace;
  attempt.decision = "restart 1 of restart.maxRestarts (3) within 3600 s";
  attempt.counted = true;
  attempt.start_time = at("2026-11-20T12:00:00Z");
  attempt.end_time = at("2026-11-20T12:00:09Z");
  attempt.step = 17;
  attempt.detect_ms = 3;
  attempt.agree_ms = 60;
  attempt.decide_ms = 50;
  attempt.abort_ms = 12;
  attempt.record_ms = 7;
  attempt.start_ms = 40;
  attempt.init_ms = 11;
  attempt.transfer_ms = 25;
  attempt.first_step_ms = 5;
  job.status.attempts = {attempt};
  return job;
}

TEST(Explanation, each_attempt_has_its_first_failure_reaction_rule_and_times) {
  EXPECT_EQ(explanation(disturbed(), at("2026-11-20T12:01:10Z")),
            "big: Running, 4/4 ready, 8 ranks, 1 restart, of which 1 charged to restart.maxRestarts (3)\n"
            "  Running: generation 2 runs with 8 ranks (AllRanksUp, 60s ago)\n"
            "\n"
            "generation 1: 2026-11-20T12:00:00Z to 2026-11-20T12:00:09Z, to step 17\n"
            "  ended by    ProcessSignal (rank 2, pod big-1-1, node n1, exit code 139)\n"
            "              rank 2 was ended by SIGSEGV\n"
            "              its last words\n"
            "  done        InPlace: the pods stayed, and their dead processes restarted\n"
            "  by rule     restart 1 of restart.maxRestarts (3) within 3600 s\n"
            "  recovery    108 ms\n"
            "              detect             3 ms\n"
            "              agree             60 ms   of that decide 50, abort 12, record 7\n"
            "              start             40 ms   of that init 11, transfer 25\n"
            "              first step         5 ms\n");
}

TEST(Explanation, leaves_unknown_values_out) {
  api::TrainingJob job = disturbed();
  job.status.attempts[0] = {.generation = 4, .cause = api::Cause::kCompleted};
  EXPECT_NE(
      explanation(job, at("2026-11-20T12:01:10Z")).find("generation 4: ? to ?, to step 0\n  ended by    Completed\n"),
      std::string::npos);
}

TEST(Explanation, says_how_many_restarts_are_not_listed) {
  api::TrainingJob job = disturbed();
  job.status.restarts.total = 31;
  EXPECT_NE(explanation(job, at("2026-11-20T12:01:10Z")).find("Earlier restarts that are not stored: 30.\n"),
            std::string::npos);
}

TEST(Explanation, of_a_job_that_waits_says_why) {
  api::TrainingJob job;
  job.meta.name = "new";
  job.status.state = "Pending";
  job.status.conditions = {
      {.type = "Running", .status = "False", .reason = "Waiting", .message = "waiting for slots 0, 1"}};
  const std::string text = explanation(job, at("2026-11-20T12:01:10Z"));
  EXPECT_NE(text.find("  Running: waiting for slots 0, 1 (Waiting, some time ago)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("No attempt has ended so far."), std::string::npos);
}

// Messages come from programs.
TEST(Explanation, of_a_job_that_trains_says_why_its_spare_waits) {
  api::TrainingJob job;
  job.status.state = "Running";
  job.status.conditions = {
      {.type = "Placed", .status = "True", .reason = "GangPlaced", .message = "of the spares: no node has room"},
      {.type = "Running", .status = "True", .reason = "AllRanksUp", .message = "generation 1 runs"}};
  EXPECT_NE(explanation(job, {}).find("no node has room"), std::string::npos);
  job.status.conditions[0].reason = "AllPodsPlaced";
  EXPECT_EQ(explanation(job, {}).find("no node has room"), std::string::npos);
}

TEST(Explanation, keeps_control_characters_from_the_terminal) {
  api::TrainingJob job = disturbed();
  job.status.attempts[0].message = "bell \x07 and \x1b[2J";
  EXPECT_NE(explanation(job, at("2026-11-20T12:01:10Z")).find("bell ? and ?[2J\n"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli::explanation_test
