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
    message.epoch = {1, generation};
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

TEST_F(CoordinatorRegroupTest, of_equal_versions_with_other_bits_the_lowest_ranks_wins_a_tie) {
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
  EXPECT_EQ(job->view()->failure->cause, "ConnectionBroken");
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
  EXPECT_EQ(job->view()->failure->cause, "ProcessSignal");
}

TEST_F(CoordinatorRegroupTest, a_lost_connection_and_a_peers_word_are_a_loss_at_once) {
  start();
  job->on_disconnected(kFirst + 1, now());
  broken(0, 1);
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, "MemberLost");
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
