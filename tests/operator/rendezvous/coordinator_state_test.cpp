#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(CoordinatorStateTest, a_generation_forms_when_all_members_are_there) {
  set_plan();
  EXPECT_FALSE(job->view());
  loaded();
  EXPECT_EQ(job->view()->message, "waiting for slots 0, 1 to connect");
  join(0);
  EXPECT_TRUE(taken<WriteRecord>().empty());
  join(1);
  EXPECT_EQ(phase(), Phase::kProposing);
  EXPECT_EQ(sent<Propose>().size(), 2U);
  EXPECT_EQ(taken<WriteRecord>().at(0).next.generation, 1);
  written();
  ready(0, 1);
  EXPECT_TRUE(sent<Go>().empty());
  ready(1, 1);
  const auto go = sent<Go>();
  ASSERT_EQ(go.size(), 2U);
  EXPECT_EQ(go[0].peers->addresses(), (std::vector<std::string>{"10.0.0.0:1", "10.0.0.1:1"}));
  EXPECT_EQ(go[1].peers, go[0].peers);
  EXPECT_EQ(go[1].first_rank, 1);
  EXPECT_EQ(go[1].master_addr, "10.0.0.0");
  EXPECT_EQ(phase(), Phase::kStarting);
  say(0, Up{1});
  say(1, Up{1});
  EXPECT_EQ(phase(), Phase::kUp);
}

TEST_F(CoordinatorStateTest, go_waits_for_the_record) {
  set_plan();
  loaded();
  join(0);
  join(1);
  ready(0, 1);
  ready(1, 1);
  EXPECT_TRUE(sent<Go>().empty());
  EXPECT_EQ(job->view()->message, "waiting for the job's record to be written");
  written();
  EXPECT_EQ(sent<Go>().size(), 2U);
}

TEST_F(CoordinatorStateTest, a_failed_write_discards_the_proposal_and_its_number) {
  set_plan();
  loaded();
  join(0);
  join(1);
  ready(0, 1);
  ready(1, 1);
  not_written(ErrorCode::kConflict);
  EXPECT_EQ(phase(), Phase::kWaiting);
  EXPECT_EQ(taken<LoadRecord>().size(), 2U);
  loaded();
  EXPECT_EQ(taken<WriteRecord>().back().next.generation, 2);
  written();
  ready(0, 1);
  ready(1, 1);
  EXPECT_TRUE(sent<Go>().empty()) << "READY of a discarded proposal";
  ready(0, 2);
  ready(1, 2);
  EXPECT_EQ(sent<Go>().at(0).id.generation, 2);
}

TEST_F(CoordinatorStateTest, an_own_failure_breaks_at_once_and_waits_for_the_controller) {
  start();
  say(1, exit(1, 1, 137, 9));
  EXPECT_EQ(sent<Ack>().size(), 1U);
  EXPECT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kProcessSignal);
  EXPECT_EQ(job->view()->failure->rank, 1);
  EXPECT_TRUE(taken<WriteRecord>().empty());
  plan.handled_generation = 1;
  set_plan();
  EXPECT_EQ(sent<Propose>().at(0).id.generation, 2);
  written();
  up_generation(2);
  EXPECT_EQ(phase(), Phase::kUp);
  EXPECT_FALSE(job->view()->failure);
}

// Rule 1 of operator/rendezvous/README.md: PROPOSE goes out as soon as a generation of our trainer has failed.
TEST_F(CoordinatorStateTest, regroup_asks_at_once_and_go_waits_for_controller_and_record) {
  start();
  say(1, exit(1, 1, 137, 9));
  EXPECT_EQ(sent<Propose>().size(), 2U);
  EXPECT_EQ(job->view()->generation, 1);
  ready(0, 2);
  ready(1, 2);
  EXPECT_TRUE(taken<WriteRecord>().empty());
  EXPECT_TRUE(sent<Go>().empty());
  EXPECT_EQ(phase(), Phase::kBroken);
  plan.handled_generation = 1;
  set_plan();
  EXPECT_EQ(phase(), Phase::kProposing);
  EXPECT_TRUE(sent<Go>().empty());
  written();
  EXPECT_EQ(sent<Go>().size(), 2U);
  EXPECT_EQ(sent<Propose>().size(), 2U) << "nobody was asked twice";
}

TEST_F(CoordinatorStateTest, a_foreign_program_is_not_ended_before_the_controller_has_spoken) {
  plan.kind = Kind::kTorch;
  start();
  say(1, exit(1, 1, 137, 9));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_TRUE(sent<Propose>().empty());
}

TEST_F(CoordinatorStateTest, what_was_asked_early_is_void_when_the_controller_wants_other_pods) {
  start();
  say(1, exit(1, 1, 137, 9));
  ready(0, 2);
  ready(1, 2);
  plan.handled_generation = 1;
  plan.members[1] = {1, 2, "a-1-2", "u1-2", "n1"};
  set_plan();
  EXPECT_TRUE(taken<WriteRecord>().empty());
  EXPECT_EQ(phase(), Phase::kWaiting);
  job->on_hello(kFirst + 9, hello(1), now());
  EXPECT_EQ(sent<Propose>().back().id.generation, 3) << "the number is not used again";
}

TEST_F(CoordinatorStateTest, a_write_that_fails_while_a_failure_is_not_dealt_with_does_not_hide_it) {
  start();
  time += seconds(11);
  Heartbeat saved = runs(1);
  saved.newest_checkpoint = CheckpointReport{"step-5.g1", 5, 1, "abc"};
  say(0, saved);
  say(1, exit(1, 1, 137, 9));
  not_written(ErrorCode::kUnavailable);
  EXPECT_EQ(phase(), Phase::kBroken);
  EXPECT_TRUE(job->view()->failure);
}

TEST_F(CoordinatorStateTest, communication_failures_wait_200_ms_for_the_one_who_began) {
  start();
  say(0, exit(0, 1, kExitCommunication, 0, 10));
  EXPECT_EQ(phase(), Phase::kUp);
  time += milliseconds(150);
  say(1, exit(1, 1, 139, 11, 20));
  EXPECT_EQ(job->view()->failure->rank, 1);
}

TEST_F(CoordinatorStateTest, communication_failures_alone_are_named_after_200_ms) {
  start();
  Exit first = exit(0, 1, kExitCommunication, 0, 10);
  first.report = FailureReport{FailureReport::Class::kCommunication, 1, "the link to rank 1 broke"};
  say(0, first);
  time += milliseconds(200);
  beat(1, 1);
  EXPECT_EQ(job->view()->failure->rank, 0);
  EXPECT_NE(job->view()->failure->message.find("the link to rank 1 broke"), std::string::npos);
}

TEST_F(CoordinatorStateTest, a_broken_connection_and_a_peers_word_are_a_loss_at_once) {
  start();
  job->on_disconnected(kFirst + 1, now());
  EXPECT_EQ(phase(), Phase::kUp);
  say(0, exit(0, 1, kExitCommunication));
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kMemberLost);
  EXPECT_EQ(job->view()->failure->slot, 1);
}

TEST_F(CoordinatorStateTest, a_broken_connection_alone_has_a_second) {
  start();
  job->on_disconnected(kFirst + 1, now());
  for (int i = 0; i < 4; ++i) {
    time += milliseconds(250);
    beat(0, 1);
  }
  EXPECT_EQ(phase(), Phase::kUp);
  time += milliseconds(10);
  job->on_tick(now());
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kMemberLost);
}

TEST_F(CoordinatorStateTest, silence_is_no_loss_while_steps_advance) {
  start();
  for (int i = 0; i < 20; ++i) {
    time += milliseconds(250);
    beat(0, 1, 1 + i);
  }
  EXPECT_EQ(phase(), Phase::kUp);
  for (int i = 0; i < 12; ++i) {
    time += milliseconds(250);
    beat(0, 1, 20);
  }
  EXPECT_EQ(phase(), Phase::kUp) << "three seconds of silence are allowed while the connection stands";
  time += milliseconds(250);
  beat(0, 1, 20);
  EXPECT_EQ(phase(), Phase::kBroken);
}

// Rank 0, which alone reports progress, is the silent one.
TEST_F(CoordinatorStateTest, nor_while_another_rank_commits_steps_that_it_had_its_part_in) {
  start();
  another_leads();
  come_back(1, MemberPhase::kRunning);
  Heartbeat heartbeat = runs(1);
  heartbeat.ranks = {{'R', 10, Activity{1, Activity::Doing::kForward, 7}}};
  for (int i = 0; i < 80; ++i) {
    time += milliseconds(250);
    ++heartbeat.ranks[0].said->step;
    say(1, heartbeat);
  }
  EXPECT_EQ(phase(), Phase::kStarting);
  for (int i = 0; i < 8; ++i) {
    time += milliseconds(250);
    say(1, heartbeat);
  }
  EXPECT_EQ(phase(), Phase::kBroken) << "they stand still, and it has not come";
  EXPECT_EQ(job->view()->failure->slot, 0);
}

TEST_F(CoordinatorStateTest, the_step_that_a_generation_began_with_is_no_advance) {
  start();
  Heartbeat heartbeat = runs(1);
  for (int i = 0; i < 13; ++i) {
    time += milliseconds(250);
    if (i == 10) {
      heartbeat.progress = Progress{
          .step = 0, .total_steps = 100, .epoch = 0, .loss = 1.0, .samples_per_second = 1.0, .eta_seconds = 1.0};
      heartbeat.ranks = {{'R', 10, Activity{1, Activity::Doing::kForward, 0}}};
    }
    say(0, heartbeat);
  }
  EXPECT_EQ(phase(), Phase::kBroken) << "slot 1 has been silent for more than three seconds";
}

TEST_F(CoordinatorStateTest, a_coordinator_that_was_held_up_blames_nobody) {
  start();
  job->take_held_up();  // of start(), which lets the time after a take-over pass at once
  time += seconds(30);
  job->on_tick(now());
  EXPECT_EQ(phase(), Phase::kUp);
  EXPECT_EQ(job->take_held_up(), seconds(30)) << "it says so";
  EXPECT_EQ(job->take_held_up(), Duration::zero()) << "once";
}

TEST_F(CoordinatorStateTest, a_replaced_pod_joins_the_survivors_in_the_next_generation) {
  start();
  plan.members[1] = {1, 2, "a-1-2", "u1b", "n2"};
  plan.handled_generation = 1;
  set_plan();
  EXPECT_TRUE(sent<Halt>().empty()) << "the survivor may keep its memory";
  ASSERT_EQ(sent<Refused>().size(), 1U) << "the old pod is told to go";
  EXPECT_TRUE(sent<Refused>().at(0).final);
  EXPECT_EQ(job->view()->message, "waiting for slot 1 to connect");
  join(1);
  written();
  ready(1, 2);
  EXPECT_TRUE(sent<Go>().empty()) << "slot 0 has not said that its old processes are gone";
  ready(0, 2);
  EXPECT_EQ(sent<Go>().size(), 2U);
}

TEST_F(CoordinatorStateTest, members_that_do_not_belong_are_refused) {
  start();
  Hello old = hello(1);
  old.incarnation = 0;
  job->on_hello(900, old, now());
  EXPECT_TRUE(sent<Refused>().back().final);
  Hello stranger = hello(1);
  stranger.pod_uid = "other";
  job->on_hello(901, stranger, now());
  EXPECT_TRUE(sent<Refused>().back().final);
  Hello early = hello(1);
  early.incarnation = 2;
  job->on_hello(902, early, now());
  EXPECT_FALSE(sent<Refused>().back().final);
  EXPECT_EQ(taken<CloseSession>().size(), 3U);
  EXPECT_EQ(job->view()->refused.size(), 2U);
  EXPECT_EQ(phase(), Phase::kUp);
}

TEST_F(CoordinatorStateTest, a_newer_connection_of_a_member_closes_the_older) {
  start();
  Hello again = hello(1);
  again.phase = MemberPhase::kRunning;
  again.generation = 1;
  again.up = true;
  job->on_hello(777, again, now());
  EXPECT_EQ(taken<CloseSession>().at(0).session, kFirst + 1);
  job->on_disconnected(kFirst + 1, now());
  EXPECT_TRUE(job->view()->members[1].connected);
}

TEST_F(CoordinatorStateTest, an_agent_that_comes_back_without_its_processes_is_a_loss) {
  start();
  Hello fresh = hello(1);
  fresh.session = "another agent";
  job->on_hello(777, fresh, now());
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kMemberLost);
}

TEST_F(CoordinatorStateTest, all_zero_exits_finish_the_job_and_done_waits_for_the_record) {
  start();
  say(0, exit(0, 1, 0));
  EXPECT_EQ(phase(), Phase::kUp);
  say(1, exit(1, 1, 0));
  EXPECT_EQ(phase(), Phase::kFinished);
  EXPECT_TRUE(sent<Done>().empty());
  EXPECT_TRUE(taken<WriteRecord>().back().next.finished);
  written();
  EXPECT_EQ(sent<Done>().size(), 2U);
  another_leads();
  EXPECT_EQ(phase(), Phase::kFinished);
}

TEST_F(CoordinatorStateTest, a_deposed_coordinator_does_nothing_after_a_later_term) {
  start();
  leads = false;
  Hello later = hello(0);
  later.promised = {2, 5};
  job->on_hello(777, later, now());
  EXPECT_FALSE(sent<Refused>().back().final);
  plan.handled_generation = 1;
  set_plan();
  EXPECT_TRUE(sent<Propose>().empty());
  EXPECT_TRUE(sent<Halt>().empty());
}

TEST_F(CoordinatorStateTest, the_newest_checkpoint_is_recorded_and_restored) {
  start();
  Heartbeat heartbeat = runs(1);
  heartbeat.newest_checkpoint = CheckpointReport{"step-40.g1", 40, 1, "ab"};
  time += seconds(10);
  say(0, heartbeat);
  EXPECT_EQ(taken<WriteRecord>().back().next.checkpoint->name, "step-40.g1");
  EXPECT_EQ(taken<WriteRecord>().back().next.generation, 1);
  written();
  beat(1, 1);
  say(1, exit(1, 1, 137, 9));
  plan.handled_generation = 1;
  set_plan();
  written();
  ready(0, 2);
  ready(1, 2);
  EXPECT_EQ(sent<Go>().back().restore, "step-40.g1");
}

}  // namespace
}  // namespace lockstep::rendezvous
