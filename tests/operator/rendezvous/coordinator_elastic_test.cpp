// The coordinator's side of a gang that may run with fewer slots: who goes on when some are lost.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_elastic_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(CoordinatorElasticTest, those_that_are_left_go_on_at_once_with_ranks_in_a_row) {
  run_three();
  pod_is_gone(0);
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 2U);
  EXPECT_EQ(proposals[0].first_rank, 0);
  EXPECT_EQ(proposals[1].first_rank, 1);
  EXPECT_EQ(proposals[1].world_size, 2);
  written();
  EXPECT_EQ(stored.record.members.size(), 2U);
  EXPECT_EQ(stored.record.members[0].slot, 1);
  ready_of({1, 2}, 2);
  const auto gos = sent<Go>();
  ASSERT_EQ(gos.size(), 2U);
  EXPECT_EQ(gos[0].first_rank, 0);
  EXPECT_EQ(gos[1].first_rank, 1);
  EXPECT_EQ(gos[1].group_rank, 1);
  EXPECT_EQ(gos[0].world_size, 2);
  EXPECT_EQ(gos[0].group_world_size, 2);
  EXPECT_EQ(gos[0].peers->addresses(), (std::vector<std::string>{"10.0.0.1:1", "10.0.0.2:1"}));
  EXPECT_EQ(gos[0].peers->slots(), (std::vector<int>{1, 2}));
}

TEST_F(CoordinatorElasticTest, members_whose_processes_live_do_not_wait_for_a_restart) {
  run_three();
  for (const int slot : {0, 1, 2}) say(slot, stays(1));
  say(2, exit(2, 1, 137, 9));
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 2U);
  EXPECT_EQ(proposals[0].world_size, 2);
}

TEST_F(CoordinatorElasticTest, below_the_minimum_all_wait_for_the_process_that_restarts) {
  plan.elastic.min_slots = 2;
  run_three();
  for (const int slot : {0, 1, 2}) say(slot, stays(1));
  say(2, exit(2, 1, 137, 9));
  say(1, exit(1, 1, 137, 9));
  EXPECT_EQ(sent<Propose>().back().world_size, 3);
}

TEST_F(CoordinatorElasticTest, the_state_comes_from_right_before_who_needs_it) {
  run_three();
  for (const int slot : {0, 1, 2}) say(slot, stays(1));
  say(1, exit(1, 1, 137, 9));
  plan.elastic.min_slots = 0;
  handled(1);
  written();
  for (const int slot : {0, 1, 2}) {
    Ready message;
    message.id = {1, proposed()};
    message.addresses = {fmt::format("10.0.0.{}:1", slot)};
    if (slot != 1) message.holdings = {{1, 7, "aa"}};
    say(slot, message);
  }
  ASSERT_FALSE(sent<Go>().empty());
  EXPECT_EQ(sent<Go>().at(0).source.rank, 0);
  EXPECT_TRUE(sent<Go>().at(0).source.send);
}

TEST_F(CoordinatorElasticTest, a_member_known_to_be_lost_is_not_waited_for) {
  run_three();
  job->on_disconnected(kFirst + 2, now());
  say(0, Broken{0, {1, 2, "a link broke"}});
  ASSERT_EQ(job->view()->failure->cause, api::Cause::kMemberLost);
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

TEST_F(CoordinatorElasticTest, below_the_minimum_it_waits) {
  run_three();
  pod_is_gone(0);
  written();
  pod_is_gone(1);
  forget();
  time += seconds(1);
  job->on_tick(now());
  EXPECT_TRUE(sent<Propose>().empty());
  EXPECT_EQ(phase(), Phase::kWaiting);
}

TEST_F(CoordinatorElasticTest, a_gang_that_is_not_elastic_waits_for_every_slot) {
  plan.elastic.min_slots = 0;
  run_three();
  pod_is_gone(0);
  EXPECT_TRUE(sent<Propose>().empty());
}

TEST_F(CoordinatorElasticTest, a_job_that_starts_waits_for_others_until_nobody_has_come_for_a_while) {
  set_plan();
  loaded();
  join(0);
  join(1);
  time += seconds(9);
  for (const int slot : {0, 1}) say(slot, Heartbeat{});
  EXPECT_TRUE(sent<Propose>().empty());
  time += seconds(1);
  for (const int slot : {0, 1}) say(slot, Heartbeat{});
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

TEST_F(CoordinatorElasticTest, a_member_that_lost_the_connection_a_moment_ago_is_waited_for) {
  run_three();
  say(1, exit(1, 1, 137, 9));
  job->on_disconnected(kFirst + 2, now());
  forget();
  handled(1);
  EXPECT_TRUE(sent<Propose>().empty());
  silence_until(milliseconds(1000), {0, 1}, 1);
  EXPECT_TRUE(sent<Propose>().empty());
  time += milliseconds(50);
  for (const int slot : {0, 1}) say(slot, Heartbeat{});
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

// Rule 2 of operator/rendezvous/README.md: each step of a generation needs all of its members.
TEST_F(CoordinatorElasticTest, a_silent_member_is_left_behind_once_another_is_ready) {
  run_three();
  silence_until(seconds(4), {0, 1}, 1);
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kMemberLost);
  EXPECT_EQ(job->view()->failure->slot, 2);
  handled(1);
  written();
  EXPECT_TRUE(sent<Go>().empty());
  ready_of({0, 1}, 2);
  EXPECT_EQ(sent<Go>().size(), 2U);
}

// A machine under all of them stands still for a moment just when one has died.
TEST_F(CoordinatorElasticTest, a_moment_in_which_all_are_silent_does_not_put_off_the_loss_of_one) {
  run_three();
  silence_until(milliseconds(500), {0, 1}, 1);
  silence_until(milliseconds(750), {}, 1);
  silence_until(milliseconds(1750), {0, 1}, 1);
  EXPECT_EQ(phase(), Phase::kUp);
  forget();
  silence_until(milliseconds(500), {0, 1}, 1);
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->slot, 2);
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

TEST_F(CoordinatorElasticTest, a_late_member_has_a_grace_equal_to_the_silence_of_all) {
  run_three();
  silence_until(milliseconds(2000), {}, 1);
  silence_until(milliseconds(2000), {0, 1}, 1);  // its TCP waits twice as long each time
  for (const int slot : {0, 1, 2}) beat(slot, 1);
  EXPECT_EQ(phase(), Phase::kUp);
}

TEST_F(CoordinatorElasticTest, newcomers_alone_do_not_go_on_while_one_of_before_may_be_at_work) {
  plan.elastic.min_slots = 1;
  run_two();
  pod_is_new(0);
  job->on_disconnected(kFirst + 2, now());
  pod_is_gone(1, 2);
  for (int i = 0; i < 8; ++i) {
    time += milliseconds(250);
    job->on_message(kAgain, Heartbeat{}, now());
  }
  EXPECT_TRUE(sent<Propose>().empty());
  come_back(2, MemberPhase::kRunning, 2, kAgain);
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

TEST_F(CoordinatorElasticTest, a_silent_member_of_a_foreign_gang_holds_the_others_up) {
  plan.kind = Kind::kTorch;
  run_three();
  silence_until(seconds(4), {0, 1}, 1);
  handled(1);
  EXPECT_TRUE(sent<Propose>().empty());
  EXPECT_EQ(job->view()->message, "waiting for a member that is silent");
}

TEST_F(CoordinatorElasticTest, the_loss_of_one_that_is_not_in_the_gang_ends_nothing) {
  run_two();
  pod_is_new(0);
  job->on_disconnected(kAgain, now());
  silence_until(seconds(5), {1, 2}, 2);
  EXPECT_EQ(phase(), Phase::kUp);
  const auto view = *job->view();
  EXPECT_EQ(view.world_size, 2);
  ASSERT_EQ(view.members.size(), 3U);
  EXPECT_FALSE(view.members[0].in_gang);
  EXPECT_TRUE(view.members[1].in_gang);
}

TEST_F(CoordinatorElasticTest, a_failure_names_the_slot_that_has_the_rank_now) {
  run_two();
  say(2, exit(1, 2, 137, 9));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->rank, 1);
  EXPECT_EQ(job->view()->failure->slot, 2);
}

TEST_F(CoordinatorElasticTest, an_exit_of_a_rank_that_is_another_slots_is_ignored) {
  run_two();
  say(2, exit(0, 2, 137, 9));
  EXPECT_EQ(phase(), Phase::kUp);
  EXPECT_EQ(job->ignored(), 1);
}

TEST_F(CoordinatorElasticTest, a_new_leader_leaves_a_smaller_gang_alone) {
  run_two();
  plan.handled_generation = 1;
  another_leads();
  for (const int slot : {1, 2}) come_back(slot, MemberPhase::kRunning, 2);
  EXPECT_EQ(phase(), Phase::kUp);
  EXPECT_TRUE(sent<Propose>().empty());
  EXPECT_TRUE(sent<Halt>().empty());
}

// Rule 2 of operator/rendezvous/README.md: no successor is disjoint from the gang in force. Slots 0 and 1 may still
// train with slot 2, in generation 1. Meanwhile the record tells of a generation 2 of slots 0 and 2 that perhaps never
// began.
TEST_F(CoordinatorElasticTest, a_new_leader_evicts_nobody_before_it_knows_the_generation) {
  plan.elastic.min_slots = 1;
  stored.record.generation = 2;
  stored.record.term = 1;
  stored.record.members = {{0, 1, 1}, {2, 1, 1}};
  stored.version = "7";
  another_leads();
  Hello message = hello(2);
  message.phase = MemberPhase::kReady;
  message.promised = {1, 2};
  message.generation = 1;
  job->on_hello(kFirst + 2, message, now());
  for (int i = 0; i < 60; ++i) {
    time += milliseconds(250);
    say(2, Heartbeat{.phase = MemberPhase::kReady, .generation = 1});
  }
  EXPECT_EQ(phase(), Phase::kWaiting);
  EXPECT_TRUE(sent<Propose>().empty());
  join(0);
  join(1);
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

// The leader before made the first record just after this one had found none.
TEST_F(CoordinatorElasticTest, a_record_that_appears_late_is_taken_over_like_any_other) {
  plan.elastic.min_slots = 1;
  job = make(2);
  set_plan();
  loaded();
  join(1);
  join(2);
  time += seconds(10);
  for (const int slot : {1, 2}) say(slot, Heartbeat{});
  ASSERT_EQ(sent<Propose>().size(), 2U);
  forget();
  stored.record.generation = 1;
  stored.record.term = 1;
  stored.record.members = {{0, 1, 1}};
  stored.version = "1";
  not_written(ErrorCode::kConflict);
  loaded();
  written();
  EXPECT_EQ(stored.record.term, 2);
  for (int i = 0; i < 60; ++i) {
    time += milliseconds(250);
    for (const int slot : {1, 2}) say(slot, Heartbeat{});
  }
  EXPECT_TRUE(sent<Propose>().empty()) << "slot 0 may train";
  come_back(0, MemberPhase::kRunning);
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

TEST_F(CoordinatorElasticTest, a_new_leader_that_hears_one_recorded_member_may_evict_others) {
  run_three();
  another_leads();
  come_back(0, MemberPhase::kRunning);
  come_back(1, MemberPhase::kRunning);
  for (int i = 0; i < 40; ++i) {
    time += milliseconds(250);
    for (const int slot : {0, 1}) say(slot, Heartbeat{.phase = MemberPhase::kRunning, .generation = 1});
  }
  ASSERT_EQ(phase(), Phase::kBroken);
  handled(1);
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

TEST_F(CoordinatorElasticTest, it_has_succeeded_when_those_that_ran_have) {
  run_two();
  pod_is_new(0);
  for (const int slot : {1, 2}) say(slot, exit(slot - 1, 2, 0));
  EXPECT_EQ(phase(), Phase::kFinished);
  written();
  EXPECT_EQ(sent<Done>().size(), 3U);
}

}  // namespace
}  // namespace lockstep::rendezvous
