// What a new coordinator makes of the record and of members that still run.
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;

// One coordinator asked for READY and died before it recorded the generation; its successor knows only the one before.
TEST_F(CoordinatorStateTest, a_generation_that_its_members_have_renounced_is_followed_by_another) {
  start();
  another_leads();
  for (const int slot : {0, 1}) {
    Hello message = hello(slot);
    message.phase = MemberPhase::kReady;
    message.generation = 1;
    message.up = true;
    message.promised = {1, 2};
    job->on_hello(kFirst + static_cast<SessionId>(slot), message, now());
  }
  EXPECT_TRUE(sent<Propose>().empty()) << "word of a failure may follow";
  for (int i = 0; i < 5; ++i) {
    time += milliseconds(250);
    for (const int slot : {0, 1}) say(slot, Heartbeat{.phase = MemberPhase::kReady, .generation = 1});
  }
  EXPECT_EQ(sent<Propose>().size(), 2U);
  EXPECT_EQ(sent<Propose>().at(0).id.generation, 3);
}

TEST_F(CoordinatorStateTest, after_a_takeover_a_broken_link_waits_for_the_agent_that_began_it) {
  start();
  another_leads();
  come_back(1, MemberPhase::kRunning);
  say(1, Broken{1, {1, 0, "rank 0 went away", false}});
  for (int i = 0; i < 3; ++i) {
    time += milliseconds(250);
    beat(1, 1);
    job->on_tick(now());
  }
  EXPECT_FALSE(job->view()) << "slot 0 has a second to come back";
  come_back(0, MemberPhase::kExited);
  say(0, exit(0, 1, 137, 9));
  ASSERT_TRUE(job->view()->failure);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kProcessSignal);
  EXPECT_EQ(job->view()->failure->rank, 0);
}

TEST_F(CoordinatorStateTest, after_a_take_over_an_agent_that_does_not_come_is_waited_for_a_second) {
  start();
  another_leads();
  come_back(1, MemberPhase::kRunning);
  say(1, Broken{1, {1, 0, "rank 0 went away", false}});
  for (int i = 0; i < 4; ++i) {
    time += milliseconds(250);
    beat(1, 1);
    job->on_tick(now());
  }
  ASSERT_TRUE(job->view()->failure);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kConnectionBroken);
}

TEST_F(CoordinatorStateTest, a_new_coordinator_leaves_a_running_generation_alone) {
  start();
  job = make(2);
  set_plan();
  loaded();
  EXPECT_EQ(taken<WriteRecord>().back().next.term, 2) << "the leader before is fenced off";
  written();
  EXPECT_FALSE(job->view()) << "nothing is known yet, and nothing must look broken";
  for (int slot = 0; slot < 2; ++slot) {
    come_back(slot, MemberPhase::kRunning);
  }
  EXPECT_EQ(phase(), Phase::kUp);
  EXPECT_TRUE(sent<Propose>().empty());
  EXPECT_TRUE(sent<Halt>().empty());
}

TEST_F(CoordinatorStateTest, a_generation_that_ended_without_a_coordinator_ends_with_its_last_step) {
  start();
  beat(0, 1, 40);
  job = make(2);
  set_plan();
  for (int slot = 0; slot < 2; ++slot) {
    come_back(slot, MemberPhase::kExited);
    beat(slot, 1, 100);
    say(slot, exit(slot, 1, 0));
  }
  loaded();
  written();
  EXPECT_EQ(phase(), Phase::kFinished);
  EXPECT_EQ(job->view()->progress.step, 100);
}

TEST_F(CoordinatorStateTest, a_member_that_stays_away_after_a_takeover_is_lost_after_5_s) {
  start();
  another_leads();
  Hello message = hello(0);
  message.phase = MemberPhase::kRunning;
  message.generation = 1;
  message.up = true;
  job->on_hello(kFirst, message, now());
  for (int i = 0; i < 19; ++i) {
    time += milliseconds(250);
    beat(0, 1);
    job->on_tick(now());
  }
  EXPECT_FALSE(job->view());
  time += milliseconds(250);
  beat(0, 1);
  job->on_tick(now());
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kMemberLost);
}

TEST_F(CoordinatorStateTest, a_recorded_generation_that_never_started_is_no_failure) {
  set_plan();
  loaded();
  join(0);
  join(1);
  written();
  job = make(2);
  forget();
  set_plan();
  loaded();
  written();
  for (int slot = 0; slot < 2; ++slot) {
    Hello message = hello(slot);
    message.phase = MemberPhase::kReady;
    message.promised = {1, 1};
    job->on_hello(kFirst + static_cast<SessionId>(slot), message, now());
  }
  EXPECT_EQ(sent<Propose>().at(0).id, (GenerationId{2, 2}));
}

TEST_F(CoordinatorStateTest, a_leader_that_finds_a_finished_job_knows_how_far_it_came) {
  start();
  beat(0, 1, 9);
  say(0, exit(0, 1, 0));
  say(1, exit(1, 1, 0));
  written();
  another_leads();  // the new term
  EXPECT_EQ(phase(), Phase::kFinished);
  EXPECT_EQ(job->view()->progress.step, 9);
}

}  // namespace
}  // namespace lockstep::rendezvous
