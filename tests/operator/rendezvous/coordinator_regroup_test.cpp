// The coordinator's side when processes stay: whose state the next generation goes on from, and what counts as a break.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoordinatorRegroupTest : public CoordinatorStateTest {
 protected:
  // READY of a member whose process stayed; one without a version is of a member that starts a new one.
  void ready_with(int slot, std::int64_t generation, const std::optional<StateVersion>& held) {
    Ready message;
    message.id = {1, generation};
    message.addresses = {fmt::format("10.0.0.{}:1", slot)};
    message.host = fmt::format("10.0.0.{}", slot);
    if (held) message.holdings = {*held};
    say(slot, message);
  }
  // Rank 1 is killed in generation 1, and the controller lets the job go on: generation 2 is proposed.
  void lose_rank_1() {
    say(1, exit(1, 1, 137, 9));
    plan.handled_generation = 1;
    set_plan();
    written();
  }
  Go go_of(const std::optional<StateVersion>& first, const std::optional<StateVersion>& second) {
    start();
    lose_rank_1();
    ready_with(0, 2, first);
    ready_with(1, 2, second);
    return sent<Go>().at(0);
  }
  // The same with a checkpoint of step 5 in the record, and nothing held by the second.
  Go go_with_checkpoint(const std::optional<StateVersion>& first) {
    start();
    Heartbeat heartbeat;
    heartbeat.phase = MemberPhase::kRunning;
    heartbeat.generation = 1;
    heartbeat.newest_checkpoint = CheckpointReport{"step-5.g1", 5, 1, "d"};
    say(0, heartbeat);
    written();
    lose_rank_1();
    ready_with(0, 2, first);
    ready_with(1, 2, std::nullopt);
    return sent<Go>().at(0);
  }
  void broken(int rank, int suspect) { say(rank, Broken{rank, {1, suspect, "a link broke"}}); }
};

TEST_F(CoordinatorRegroupTest, the_survivors_are_not_halted_while_policy_decides) {
  start();
  say(1, exit(1, 1, 137, 9));
  EXPECT_EQ(phase(), Phase::kBroken);
  EXPECT_TRUE(sent<Halt>().empty());
}

TEST_F(CoordinatorRegroupTest, a_stop_waits_for_the_checkpoint_of_a_member_that_was_ready) {
  start();
  say(1, exit(1, 1, 137, 9));
  ready_with(0, 2, StateVersion{1, 7, "a"});
  plan.stop = true;
  plan.stop_grace_seconds = 30;
  set_plan();
  EXPECT_FALSE(sent<Stop>().empty());
  say(1, Heartbeat{.sequence = 9, .phase = MemberPhase::kExited, .generation = 1});
  ASSERT_NE(phase(), Phase::kStopped);
  Heartbeat saved{.sequence = 9, .phase = MemberPhase::kExited, .generation = 1};
  saved.newest_checkpoint = CheckpointReport{"step-7.g1", 7, 1, "a"};
  say(0, saved);
  EXPECT_EQ(phase(), Phase::kStopped);
  EXPECT_EQ(taken<WriteRecord>().back().next.checkpoint, saved.newest_checkpoint);
}

TEST_F(CoordinatorRegroupTest, each_phase_of_a_recovery_is_timed) {
  start();
  const auto pass = [this](int ms) { time += milliseconds(ms); };
  say(1, exit(1, 1, 137, 9));  // the proposal goes out at once
  pass(30);
  ready_with(0, 2, StateVersion{1, 7, "a"});
  pass(20);
  plan.handled_generation = 1;
  set_plan();
  pass(7);
  written();
  pass(3);
  ready_with(1, 2, std::nullopt);
  RecoveryTimes times = job->view()->times;
  EXPECT_EQ(times.agree_ms, 60);
  EXPECT_EQ(times.abort_ms, 60) << "the last READY";
  EXPECT_EQ(times.decide_ms, 50);
  EXPECT_EQ(times.record_ms, 7);
  pass(40);
  say(0, Up{.generation = 2, .regroups = true, .entry = {.init_ms = 11, .transfer_ms = 6}});
  pass(10);
  say(1, Up{.generation = 2, .regroups = true, .entry = {.init_ms = 8, .transfer_ms = 9}});
  times = job->view()->times;
  EXPECT_EQ(times.start_ms, 50);
  EXPECT_EQ(times.init_ms, 11);
  EXPECT_EQ(times.transfer_ms, 9);
}

TEST_F(CoordinatorRegroupTest, a_foreign_programs_processes_are_halted_at_once) {
  plan.kind = Kind::kTorch;
  start();
  say(1, exit(1, 1, 137, 9));
  time += milliseconds(300);
  job->on_tick(now());
  EXPECT_EQ(sent<Halt>().size(), 1U);
}

TEST_F(CoordinatorRegroupTest, a_survivor_gives_its_state_to_the_replacement) {
  const Go go = go_of(StateVersion{1, 7, "a"}, std::nullopt);
  EXPECT_EQ(go.source, (StateSource{0, {1, 7, "a"}, true}));
  EXPECT_EQ(go.restore, "");
}

TEST_F(CoordinatorRegroupTest, the_newest_step_wins) {
  EXPECT_EQ(go_of(StateVersion{1, 7, "a"}, StateVersion{1, 8, "b"}).source, (StateSource{1, {1, 8, "b"}, true}));
}

TEST_F(CoordinatorRegroupTest, a_later_generation_wins_over_more_steps) {
  EXPECT_EQ(go_of(StateVersion{1, 9, "a"}, StateVersion{2, 8, "b"}).source, (StateSource{1, {2, 8, "b"}, true}));
}

TEST_F(CoordinatorRegroupTest, equal_states_are_not_sent) {
  EXPECT_EQ(go_of(StateVersion{1, 7, "a"}, StateVersion{1, 7, "a"}).source, (StateSource{0, {1, 7, "a"}, false}));
}

TEST_F(CoordinatorRegroupTest, of_equal_versions_that_differ_the_lowest_ranks_wins_a_tie) {
  EXPECT_EQ(go_of(StateVersion{1, 7, "b"}, StateVersion{1, 7, "a"}).source, (StateSource{0, {1, 7, "b"}, true}));
}

TEST_F(CoordinatorRegroupTest, without_a_holder_the_checkpoint_of_the_record_is_restored) {
  const Go go = go_with_checkpoint(std::nullopt);
  EXPECT_EQ(go.source.rank, -1);
  EXPECT_EQ(go.restore, "step-5.g1");
}

TEST_F(CoordinatorRegroupTest, a_checkpoint_that_is_newer_than_every_holding_is_restored_by_all) {
  const Go go = go_with_checkpoint(StateVersion{1, 4, "a"});
  EXPECT_EQ(go.source.rank, -1);
  EXPECT_EQ(go.restore, "step-5.g1");
}

TEST_F(CoordinatorRegroupTest, a_ready_that_was_taken_back_counts_as_the_later_one) {
  start();
  lose_rank_1();
  ready_with(0, 2, StateVersion{1, 7, "a"});
  ready_with(0, 2, std::nullopt);
  ready_with(1, 2, std::nullopt);
  EXPECT_EQ(sent<Go>().at(0).source.rank, -1);
}

TEST_F(CoordinatorRegroupTest, a_process_that_has_no_state_yet_is_no_source) {
  EXPECT_EQ(go_of(StateVersion{}, StateVersion{}).source.rank, -1);
}

TEST_F(CoordinatorRegroupTest, suspicion_is_not_death_the_same_set_forms_again_after_200_ms) {
  start();
  broken(0, 1);
  broken(1, 0);
  EXPECT_EQ(phase(), Phase::kUp);
  time += milliseconds(200);
  beat(0, 1);
  beat(1, 1);
  job->on_tick(now());
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kConnectionBroken);
  EXPECT_EQ(job->view()->failure->rank, 1);
}

TEST_F(CoordinatorRegroupTest, a_suspect_that_is_no_rank_of_the_gang_is_not_named) {
  start();
  broken(0, 77);
  time += milliseconds(200);
  beat(0, 1);
  beat(1, 1);
  job->on_tick(now());
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->rank, 0);
  EXPECT_EQ(job->view()->failure->slot, 0);
}

TEST_F(CoordinatorRegroupTest, a_death_that_comes_after_the_suspicion_is_the_cause) {
  start();
  broken(0, 1);
  time += milliseconds(50);
  say(1, exit(1, 1, 137, 9));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kProcessSignal);
}

TEST_F(CoordinatorRegroupTest, a_lost_connection_and_a_peers_word_are_a_loss_at_once) {
  start();
  job->on_disconnected(kFirst + 1, now());
  broken(0, 1);
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kMemberLost);
  EXPECT_EQ(job->view()->failure->slot, 1);
}

TEST_F(CoordinatorRegroupTest, a_word_about_another_generation_breaks_nothing) {
  start();
  say(0, Broken{0, {7, 1, "a link broke"}});
  time += milliseconds(300);
  beat(0, 1);
  beat(1, 1);
  job->on_tick(now());
  EXPECT_EQ(phase(), Phase::kUp);
}

TEST_F(CoordinatorRegroupTest, nobody_speaks_for_a_rank_of_another_member) {
  start();
  say(0, Broken{1, {1, 0, "a link broke"}});
  time += milliseconds(300);
  beat(0, 1);
  beat(1, 1);
  job->on_tick(now());
  EXPECT_EQ(phase(), Phase::kUp);
}

}  // namespace
}  // namespace lockstep::rendezvous
