// The coordinator's side of a gang that runs with fewer slots than it may: who gets warm beside it, and who is taken
// in.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_elastic_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoordinatorGrowthTest : public CoordinatorElasticTest {};

TEST_F(CoordinatorGrowthTest, a_member_left_out_is_warmed_and_taken_in_when_it_is_warm) {
  go_on_without_two();
  for (const int slot : {0, 1}) say(slot, stays(2));
  say(2, Heartbeat{.phase = MemberPhase::kExited, .generation = 1});
  EXPECT_TRUE(sent<Warm>().empty()) << "the others are in their first step, perhaps on the same machine";
  time += milliseconds(100);
  say(0, stays(2, 9));
  ASSERT_EQ(sent<Warm>().size(), 1U);
  const Go go = sent<Warm>().at(0).go;
  EXPECT_EQ(go.id, (GenerationId{1, 0}));
  EXPECT_EQ(go.first_rank, 2);
  EXPECT_EQ(go.world_size, 3);
  forget();
  say(2, Heartbeat{.phase = MemberPhase::kRunning});
  EXPECT_TRUE(sent<Yield>().empty()) << "it is not warm yet";
  EXPECT_TRUE(sent<Warm>().empty()) << "once is enough";
  say(2, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true});
  EXPECT_EQ(sent<Yield>().size(), 2U);
  yielded(0, 0, 2);
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

TEST_F(CoordinatorGrowthTest, a_recoverys_duration_stays_readable_when_others_join_after_it) {
  go_on_without_two();
  for (const int slot : {0, 1}) say(slot, stays(2));
  say(2, Heartbeat{.phase = MemberPhase::kExited, .generation = 1});
  time += milliseconds(100);
  say(0, stays(2, 9));
  const RecoveryTimes recovery = job->view()->times;
  EXPECT_EQ(recovery.after, 1);
  EXPECT_GE(recovery.agree_ms, 0);
  EXPECT_GE(recovery.start_ms, 0);
  EXPECT_EQ(recovery.first_step_ms, 100);
  say(2, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true});
  time += milliseconds(40);
  for (const int slot : {0, 1}) yielded(slot, slot, 2);
  written();
  time += milliseconds(40);
  up({0, 1, 2}, 3);
  time += milliseconds(40);
  for (const int slot : {0, 1, 2}) say(slot, stays(3, 10));
  ASSERT_EQ(job->view()->generation, 3);
  EXPECT_EQ(job->view()->times, recovery);
  say(2, exit(2, 3, 137, 9));
  EXPECT_EQ(job->view()->times, (RecoveryTimes{.after = 3}));
}

// The lowest slot has told of no step yet, and another has.
TEST_F(CoordinatorGrowthTest, a_recoverys_first_step_is_reported_though_others_join_before_it) {
  run_three();
  for (const int slot : {0, 1, 2}) say(slot, stays(1, 8));
  say(2, exit(2, 1, 137, 9));
  handled(1);
  written();
  up({0, 1}, 2);
  for (const int slot : {0, 1}) say(slot, stays(2));
  say(0, stays(2, 8));
  say(2, Heartbeat{.phase = MemberPhase::kExited, .generation = 1});
  time += milliseconds(60);
  say(1, stays(2, 9));
  time += milliseconds(60);
  say(2, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true});
  ASSERT_EQ(sent<Yield>().size(), 2U);
  EXPECT_EQ(job->view()->times.first_step_ms, 60);
}

TEST_F(CoordinatorGrowthTest, a_first_step_that_takes_long_keeps_nobody_from_getting_warm) {
  go_on_without_two();
  for (const int ms : {250, 500}) {
    EXPECT_TRUE(sent<Warm>().empty()) << ms;
    time += milliseconds(250);
    for (const int slot : {0, 1}) say(slot, stays(2));
  }
  EXPECT_EQ(sent<Warm>().size(), 1U);
}

TEST_F(CoordinatorGrowthTest, a_member_that_did_not_hear_that_it_is_to_get_warm_is_told_again) {
  go_on_without_two();
  for (int i = 0; i < 10; ++i) {
    time += milliseconds(250);
    for (const int slot : {0, 1}) say(slot, stays(2));
    say(2, Heartbeat{.phase = MemberPhase::kExited, .generation = 1});
  }
  EXPECT_EQ(sent<Warm>().size(), 2U);
}

TEST_F(CoordinatorGrowthTest, one_that_comes_back_after_it_was_left_behind_is_halted_and_taken_in) {
  run_three();
  silence_until(seconds(4), {0, 1}, 1);
  handled(1);
  written();
  up({0, 1}, 2);
  forget();
  come_back(2, MemberPhase::kRunning, 1, kAgain);
  EXPECT_EQ(sent<Halt>().size(), 1U);
  EXPECT_TRUE(sent<Propose>().empty()) << "the others have not got a step further";
  time += milliseconds(250);
  beat(1, 2);
  beat(0, 2, 7);
  EXPECT_EQ(sent<Yield>().size(), 2U);
  yielded(0, 0, 2);
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

TEST_F(CoordinatorGrowthTest, a_gang_that_is_whole_again_takes_the_newcomer_in_after_its_next_step) {
  run_two();
  pod_is_new(0);
  EXPECT_TRUE(sent<Yield>().empty());
  time += milliseconds(100);
  beat(1, 2, 8);
  EXPECT_EQ(sent<Yield>().size(), 2U) << "those who train";
  EXPECT_TRUE(sent<Propose>().empty()) << "and go on with it until they have ended a step";
  EXPECT_EQ(job->view()->message, "slot 0 will join after this step");
  yielded(2, 1, 2);
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 3U);
  EXPECT_EQ(proposals[0].id.generation, 3);
  EXPECT_EQ(proposals[0].world_size, 3);
  EXPECT_EQ(proposals[2].first_rank, 2);
  written();
  EXPECT_EQ(stored.record.members.size(), 3U);
}

TEST_F(CoordinatorGrowthTest, one_of_several_newcomers_waits_until_nobody_has_come_for_a_while) {
  run_two();
  plan.slots = 4;
  pod_is_new(0);
  time += seconds(1);
  beat(1, 2, 8);
  beat(2, 2);
  EXPECT_TRUE(sent<Yield>().empty());
  silence_until(seconds(8), {1, 2}, 2);
  job->on_message(kAgain, Heartbeat{}, now());
  EXPECT_TRUE(sent<Yield>().empty());
  time += seconds(2);
  job->on_message(kAgain, Heartbeat{}, now());
  beat(1, 2);
  beat(2, 2);
  EXPECT_EQ(sent<Yield>().size(), 2U);
  yielded(1, 0, 2);
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

// Rule 10 of operator/rendezvous/README.md: the ranks agree on a voluntary change in band.
TEST_F(CoordinatorGrowthTest, a_newcomer_that_has_gone_again_before_the_step_ended_is_not_waited_for) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  job->on_disconnected(kAgain, now());
  silence_until(seconds(2), {1, 2}, 2);
  yielded(1, 0, 2);
  yielded(2, 1, 2);
  EXPECT_FALSE(job->view()->failure) << "nothing has failed";
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 2U);
  EXPECT_EQ(proposals[0].world_size, 2);
}

TEST_F(CoordinatorGrowthTest, a_member_that_reconnects_is_asked_again_to_end_the_step) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  forget();
  job->on_disconnected(kFirst + 1, now());
  come_back(1, MemberPhase::kRunning, 2);
  EXPECT_EQ(sent<Yield>().size(), 1U);
}

TEST_F(CoordinatorGrowthTest, a_rank_that_dies_before_the_step_ended_is_a_failure_as_ever) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  say(2, exit(1, 2, 137, 9));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kProcessSignal);
}

TEST_F(CoordinatorGrowthTest, a_step_that_does_not_end_is_interrupted_after_a_minute) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  const MonotonicTime asked = time;
  while (phase() == Phase::kUp && time < asked + seconds(90)) {
    time += milliseconds(250);
    job->on_message(kAgain, Heartbeat{}, now());
    for (const int slot : {1, 2}) beat(slot, 2);
  }
  EXPECT_EQ(sent<Propose>().size(), 3U);
  EXPECT_GT(time - asked, seconds(60));
  EXPECT_LT(time - asked, seconds(61));
}

TEST_F(CoordinatorGrowthTest, a_foreign_program_is_interrupted_because_it_cannot_be_asked) {
  plan.kind = Kind::kTorch;
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  EXPECT_TRUE(sent<Yield>().empty());
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

TEST_F(CoordinatorGrowthTest, a_new_leader_to_whom_a_gang_says_that_it_yielded_goes_on) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  plan.handled_generation = 1;
  another_leads();
  time += seconds(6);
  job->on_tick(now());
  for (const int slot : {1, 2}) come_back(slot, MemberPhase::kRunning, 2);
  EXPECT_TRUE(sent<Propose>().empty());
  yielded(1, 0, 2);
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

}  // namespace
}  // namespace lockstep::rendezvous
