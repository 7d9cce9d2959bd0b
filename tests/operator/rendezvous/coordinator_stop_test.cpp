// How a job ends that is suspended, deleted, or let go, and what is known of it afterwards.
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::seconds;

class CoordinatorStopTest : public CoordinatorStateTest {
 protected:
  // The job is to stop, and slot 0 has saved its last checkpoint and ended.
  void stops_and_saves() {
    plan.stop = plan.goes_on = true;
    plan.stop_grace_seconds = 20;
    set_plan();
    tells_of_the_checkpoint();
    say(0, exit(0, 1, 83));
  }
  // Another operator leads and is to stop the job; slot 1 has connected and ended, and slot 0 has not connected yet.
  void another_leads_and_stops_all_but_the_first() {
    another_leads();
    come_back(1, MemberPhase::kRunning);
    plan.stop = true;
    plan.stop_grace_seconds = 20;
    set_plan();
    say(1, exit(1, 1, 83));
  }
  void tells_of_the_checkpoint() {
    Heartbeat heartbeat;
    heartbeat.phase = MemberPhase::kRunning;
    heartbeat.generation = 1;
    heartbeat.newest_checkpoint = CheckpointReport{"step-41.g1", 41, 1, "ab"};
    say(0, heartbeat);
  }
};

TEST_F(CoordinatorStopTest, stop_reaches_everybody_with_the_exit_code_of_the_failure) {
  start();
  say(1, exit(1, 1, 3));
  plan.stop = true;
  set_plan();
  ASSERT_EQ(sent<Stop>().size(), 2U);
  EXPECT_EQ(sent<Stop>().at(0).exit_code, 3);
  EXPECT_NE(phase(), Phase::kStopped);
  Exit ordered = exit(0, 1, 143, 15);
  ordered.reason = Exit::Reason::kOrdered;
  say(0, ordered);
  job->on_disconnected(kFirst, now());
  EXPECT_EQ(phase(), Phase::kStopped);
}

TEST_F(CoordinatorStopTest, a_job_that_was_stopped_starts_again_when_it_is_wanted) {
  start();
  plan.stop = true;
  set_plan();
  job->on_disconnected(kFirst, now());
  job->on_disconnected(kFirst + 1, now());
  EXPECT_EQ(phase(), Phase::kStopped);
  plan.stop = false;
  for (auto& member : plan.members) member.incarnation = 2;
  set_plan();
  EXPECT_EQ(phase(), Phase::kWaiting);
  join(0);
  join(1);
  EXPECT_EQ(sent<Propose>().at(0).id.generation, 2);
}

TEST_F(CoordinatorStopTest, the_last_checkpoint_of_a_job_that_stops_is_recorded_at_once) {
  start();
  plan.stop = true;
  set_plan();
  tells_of_the_checkpoint();
  ASSERT_FALSE(taken<WriteRecord>().empty());
  EXPECT_EQ(taken<WriteRecord>().back().next.checkpoint->name, "step-41.g1");
  EXPECT_EQ(taken<WriteRecord>().back().next.generation, 1);
  written();
  forget();
  say(0, exit(0, 1, 83));
  say(1, exit(1, 1, 83));
  EXPECT_EQ(phase(), Phase::kStopped);
  EXPECT_TRUE(taken<WriteRecord>().empty());  // it is known already
}

TEST_F(CoordinatorStopTest, a_new_leader_that_stops_a_job_waits_for_the_last_checkpoint) {
  start();
  another_leads_and_stops_all_but_the_first();
  time += seconds(12);  // the way to the leader may be known late on a node
  job->on_tick(now());
  EXPECT_NE(job->view()->phase, Phase::kStopped);
  forget();
  come_back(0, MemberPhase::kExited);
  Heartbeat heartbeat;
  heartbeat.phase = MemberPhase::kExited;
  heartbeat.generation = 1;
  heartbeat.newest_checkpoint = CheckpointReport{"step-41.g1", 41, 1, "ab"};
  say(0, heartbeat);
  say(0, exit(0, 1, 83));
  ASSERT_FALSE(taken<WriteRecord>().empty());
  EXPECT_EQ(taken<WriteRecord>().back().next.checkpoint->name, "step-41.g1");
  EXPECT_EQ(job->view()->phase, Phase::kStopped);
}

TEST_F(CoordinatorStopTest, a_leader_records_a_stopping_jobs_checkpoint_and_adopts_on_resume) {
  start();
  job = make(2);
  plan.stop = true;
  plan.stop_grace_seconds = 20;
  set_plan();
  loaded();
  come_back(0, MemberPhase::kRunning);
  come_back(1, MemberPhase::kRunning);
  tells_of_the_checkpoint();
  ASSERT_FALSE(taken<WriteRecord>().empty());
  if (!taken<WriteRecord>().back().next.checkpoint) written();  // the term comes first
  const Record last = taken<WriteRecord>().back().next;
  ASSERT_TRUE(last.checkpoint);
  EXPECT_EQ(last.checkpoint->name, "step-41.g1");
  EXPECT_EQ(last.term, 2);
  written();
  forget();
  plan.stop = false;
  set_plan();
  EXPECT_TRUE(sent<Propose>().empty()) << "generation 1 may be in force";
  EXPECT_EQ(job->view()->generation, 1);
}

TEST_F(CoordinatorStopTest, a_stop_waits_no_longer_than_its_grace_for_a_member_that_never_comes) {
  start();
  another_leads_and_stops_all_but_the_first();
  time += seconds(26);
  job->on_tick(now());
  EXPECT_EQ(job->view()->phase, Phase::kStopped);
}

TEST_F(CoordinatorStopTest, where_the_job_goes_on_it_has_the_time_to_find_a_new_leader_besides) {
  start();
  job = make(2);
  plan.stop = plan.goes_on = true;
  plan.stop_grace_seconds = 20;
  set_plan();
  loaded();
  come_back(1, MemberPhase::kRunning);
  say(1, exit(1, 1, 83));
  time += seconds(79);
  job->on_tick(now());
  EXPECT_NE(job->view()->phase, Phase::kStopped);
  time += seconds(2);
  job->on_tick(now());
  EXPECT_EQ(job->view()->phase, Phase::kStopped);
}

TEST_F(CoordinatorStopTest, an_exit_is_acknowledged_once_the_last_checkpoint_is_recorded) {
  start();
  stops_and_saves();
  say(1, exit(1, 1, 83));
  EXPECT_TRUE(sent<Ack>().empty()) << "with the last agent gone, only this process would know of the checkpoint";
  EXPECT_NE(phase(), Phase::kStopped) << "nor may the job go on yet";
  written();
  EXPECT_EQ(sent<Ack>().size(), 2U);
  EXPECT_EQ(phase(), Phase::kStopped);
}

TEST_F(CoordinatorStopTest, a_stop_does_not_wait_for_ever_for_a_checkpoint_to_be_recorded) {
  start();
  stops_and_saves();
  say(1, exit(1, 1, 83));
  for (int i = 0; i < 26; ++i) {
    not_written(ErrorCode::kUnavailable);
    time += seconds(1);
    job->on_tick(now());
    loaded();
  }
  EXPECT_EQ(phase(), Phase::kStopped);
}

TEST_F(CoordinatorStopTest, a_member_that_returns_before_that_repeats_its_exit_and_is_told_once) {
  start();
  stops_and_saves();
  come_back(0, MemberPhase::kExited, 1, kFirst + 100);
  EXPECT_TRUE(sent<Ack>().empty());
  written();
  EXPECT_TRUE(sent<Ack>().empty()) << "it was said on a connection that is gone";
  job->on_message(kFirst + 100, exit(0, 1, 83), now());
  EXPECT_EQ(sent<Ack>().size(), 1U);
}

TEST_F(CoordinatorStopTest, nobody_waits_for_the_record_of_a_job_that_does_not_go_on) {
  start();
  plan.stop = true;
  set_plan();
  tells_of_the_checkpoint();
  say(0, exit(0, 1, 83));
  say(1, exit(1, 1, 83));
  EXPECT_EQ(sent<Ack>().size(), 2U);
  EXPECT_EQ(phase(), Phase::kStopped);
}

}  // namespace
}  // namespace lockstep::rendezvous
