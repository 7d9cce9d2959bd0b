#include <gtest/gtest.h>

#include "tests/operator/rendezvous/member_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(MemberStateTest, a_generation_starts_after_propose_ready_and_go) {
  join();
  EXPECT_EQ(sent<Hello>().size(), 1U);
  tell(proposal(1));
  ASSERT_EQ(taken<PrepareSockets>().size(), 1U);
  EXPECT_TRUE(sent<Ready>().empty());
  prepared(1);
  EXPECT_EQ(sent<Ready>().at(0).addresses.at(0), "10.0.0.1:5");
  EXPECT_EQ(member.phase(), MemberPhase::kReady);
  tell(go(1));
  EXPECT_EQ(taken<StartProcesses>().size(), 1U);
  EXPECT_EQ(member.phase(), MemberPhase::kRunning);
  EXPECT_TRUE(sent<Up>().empty());
  WorkerMessage up;
  up.up = true;
  member.on_worker_message(1, up, now);
  EXPECT_EQ(sent<Up>().at(0).generation, 1);
}

TEST_F(MemberStateTest, a_foreign_process_is_up_when_it_was_started) {
  join();
  tell(proposal(1));
  prepared(1);
  Go message = go(1);
  message.kind = Kind::kTorch;
  tell(message);
  member.on_started(1, now);
  EXPECT_EQ(sent<Up>().size(), 1U);
}

TEST_F(MemberStateTest, ready_is_not_said_while_an_old_process_lives) {
  join();
  run_generation(1);
  forget();
  tell(proposal(2));
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
  EXPECT_TRUE(taken<PrepareSockets>().empty());
  now += milliseconds(499);
  member.on_tick(now);
  EXPECT_TRUE(taken<KillProcesses>().empty());
  now += milliseconds(1);
  member.on_tick(now);
  EXPECT_EQ(taken<KillProcesses>().size(), 1U);
  end_process(137, 9);
  EXPECT_EQ(sent<Exit>().at(0).reason, Exit::Reason::kOrdered);
  EXPECT_TRUE(taken<PrepareSockets>().empty()) << "a grandchild may be left";
  member.on_no_process_left(now);
  EXPECT_EQ(taken<PrepareSockets>().size(), 1U);
}

TEST_F(MemberStateTest, what_was_promised_is_not_undercut) {
  join();
  run_generation(3);
  tell(proposal(5));
  forget();
  const std::int64_t ignored = member.ignored();
  tell(proposal(4));
  tell(proposal(3));
  tell(go(3));
  tell(go(4));
  EXPECT_TRUE(taken<StartProcesses>().empty());
  EXPECT_EQ(member.ignored(), ignored + 4);
  EXPECT_EQ(member.promised(), (GenerationId{1, 5}));
}

TEST_F(MemberStateTest, go_counts_only_once_and_only_for_what_was_answered) {
  join();
  tell(proposal(1));
  tell(go(1));  // READY was not said
  EXPECT_TRUE(taken<StartProcesses>().empty());
  prepared(1);
  tell(go(1));
  tell(go(1));
  EXPECT_EQ(taken<StartProcesses>().size(), 1U);
}

TEST_F(MemberStateTest, a_halt_takes_a_promise_back) {
  join();
  tell(proposal(2));
  prepared(2);
  tell(Halt{{1, 2}});
  EXPECT_EQ(taken<DropSockets>().size(), 1U);
  tell(go(2));
  EXPECT_TRUE(taken<StartProcesses>().empty());
}

TEST_F(MemberStateTest, a_problem_with_the_sockets_is_said_and_nothing_starts) {
  join();
  tell(proposal(1));
  member.on_prepared({1, 1}, Prepared{{}, "10.0.0.1", 29'500, api::Cause::kPortInUse, "port 29500 is taken"}, now);
  EXPECT_EQ(sent<Ready>().at(0).problem, api::Cause::kPortInUse);
  tell(go(1));
  EXPECT_TRUE(taken<StartProcesses>().empty());
}

TEST_F(MemberStateTest, exits_are_sent_again_after_each_welcome) {
  join();
  run_generation(1);
  member.on_disconnected(now);
  end_process(3);
  EXPECT_TRUE(sent<Exit>().empty());
  join();
  ASSERT_EQ(sent<Exit>().size(), 1U);
  EXPECT_EQ(sent<Exit>().at(0).code, 3);
  EXPECT_EQ(sent<Exit>().at(0).reason, Exit::Reason::kOwn);
  tell(Ack{1, 1});
  member.on_disconnected(now);
  join(2);
  EXPECT_EQ(sent<Exit>().size(), 2U) << "the next coordinator knows of no acknowledgement";
}

TEST_F(MemberStateTest, a_coordinator_of_an_older_term_is_left) {
  join(5);
  member.on_disconnected(now);
  forget();
  join(4);
  EXPECT_EQ(taken<CloseConnection>().size(), 1U);
  EXPECT_FALSE(member.welcomed());
}

TEST_F(MemberStateTest, training_goes_on_without_a_coordinator_until_the_orphan_time) {
  join();
  run_generation(1);
  member.on_disconnected(now);
  now += seconds(599);
  member.on_tick(now);
  EXPECT_TRUE(taken<EndProcesses>().empty());
  now += seconds(1);
  member.on_tick(now);
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
}

TEST_F(MemberStateTest, stop_asks_waits_kills_and_leaves_with_the_given_code) {
  join();
  run_generation(1);
  tell(Stop{2, 7});
  ASSERT_EQ(taken<EndProcesses>().size(), 1U);
  EXPECT_TRUE(taken<EndProcesses>().at(0).ask);
  now += milliseconds(2000);
  member.on_tick(now);
  EXPECT_EQ(taken<KillProcesses>().size(), 1U);
  end_process(137, 9);
  member.on_no_process_left(now);
  EXPECT_TRUE(taken<ExitAgent>().empty()) << "the EXIT is not acknowledged";
  tell(Ack{1, 1});
  ASSERT_EQ(taken<ExitAgent>().size(), 1U);
  EXPECT_EQ(taken<ExitAgent>().at(0).code, 7);
}

// As happens when the second of two processes ends between the word of the first and the look at what is left.
TEST_F(MemberStateTest, sockets_are_asked_for_once_though_the_last_exit_is_told_twice) {
  join();
  run_generation(1);
  tell(proposal(2));
  end_process(137, 9);
  forget();
  member.on_no_process_left(now);
  member.on_no_process_left(now);
  EXPECT_EQ(taken<PrepareSockets>().size(), 1U) << "READY would name the first, and processes be given the second";
}

TEST_F(MemberStateTest, an_agent_that_leaves_does_not_wait_for_ever_for_an_acknowledgement) {
  join();
  run_generation(1);
  end_process(0);
  member.on_no_process_left(now);
  tell(Done{});
  EXPECT_TRUE(taken<ExitAgent>().empty());
  now += seconds(1);
  member.on_tick(now);
  EXPECT_EQ(taken<ExitAgent>().at(0).code, 0);
}

TEST_F(MemberStateTest, a_signal_to_the_agent_marks_the_exits_and_gives_its_code) {
  join();
  run_generation(1);
  member.on_terminate(143, seconds(25), now);
  EXPECT_FALSE(taken<EndProcesses>().at(0).ask) << "that is for a stop of the whole job";
  end_process(0);
  EXPECT_EQ(sent<Exit>().at(0).reason, Exit::Reason::kTerminated);
  tell(Ack{1, 1});
  member.on_no_process_left(now);
  EXPECT_EQ(taken<ExitAgent>().at(0).code, 143);
  forget();
  tell(proposal(9));
  EXPECT_TRUE(taken<PrepareSockets>().empty());
}

TEST_F(MemberStateTest, a_final_refusal_ends_the_processes_and_the_agent) {
  join();
  run_generation(1);
  member.on_disconnected(now);
  member.on_connected(now);
  tell(Refused{"slot 1 was given to incarnation 2", true});
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
  end_process(143, 15);
  member.on_disconnected(now);
  member.on_no_process_left(now);
  EXPECT_EQ(taken<ExitAgent>().at(0).code, 1);
}

TEST_F(MemberStateTest, a_refusal_for_now_costs_nothing) {
  member.on_connected(now);
  tell(Refused{"not expected yet", false});
  EXPECT_EQ(taken<CloseConnection>().size(), 1U);
  EXPECT_FALSE(member.leaving());
}

TEST_F(MemberStateTest, heartbeats_carry_the_lowest_ranks_progress_and_newest_checkpoint) {
  join();
  run_generation(1);
  forget();
  WorkerMessage message;
  message.progress =
      Progress{.step = 12, .total_steps = 100, .epoch = 0, .loss = 0.5, .samples_per_second = 10, .eta_seconds = 9};
  message.checkpoint = CheckpointReport{"step-10.g1", 10, 1, "ab"};
  member.on_worker_message(1, message, now);
  message.checkpoint = CheckpointReport{"step-5.g1", 5, 1, "cd"};
  member.on_worker_message(1, message, now);
  now += milliseconds(250);
  member.on_tick(now);
  ASSERT_EQ(sent<Heartbeat>().size(), 1U);
  EXPECT_EQ(sent<Heartbeat>().at(0).progress->step, 12);
  EXPECT_EQ(sent<Heartbeat>().at(0).newest_checkpoint->name, "step-10.g1");
  EXPECT_EQ(sent<Heartbeat>().at(0).phase, MemberPhase::kRunning);
}

// With the last exit the generation is over; only what was said before it still counts.
TEST_F(MemberStateTest, the_last_step_and_checkpoint_leave_before_word_of_the_end) {
  join();
  run_generation(1);
  forget();
  WorkerMessage message;
  message.progress =
      Progress{.step = 100, .total_steps = 100, .epoch = 0, .loss = 0.5, .samples_per_second = 10, .eta_seconds = 0};
  message.checkpoint = CheckpointReport{"step-100.g1", 100, 1, "ab"};
  member.on_worker_message(1, message, now);
  end_process(0);
  const auto sends = taken<SendToCoordinator>();
  ASSERT_EQ(sends.size(), 2U);
  ASSERT_TRUE(std::holds_alternative<Heartbeat>(sends[0].message));
  EXPECT_EQ(std::get<Heartbeat>(sends[0].message).progress->step, 100);
  EXPECT_EQ(std::get<Heartbeat>(sends[0].message).newest_checkpoint->name, "step-100.g1");
  EXPECT_TRUE(std::holds_alternative<Exit>(sends[1].message));
}

TEST_F(MemberStateTest, a_new_coordinator_learns_the_last_step_that_the_old_one_missed) {
  join();
  run_generation(1);
  member.on_disconnected(now);
  WorkerMessage message;
  message.progress =
      Progress{.step = 100, .total_steps = 100, .epoch = 0, .loss = 0.5, .samples_per_second = 10, .eta_seconds = 0};
  member.on_worker_message(1, message, now);
  end_process(0);
  forget();
  member.on_connected(now);
  forget();
  tell(Welcome{2});
  const auto sends = taken<SendToCoordinator>();
  ASSERT_EQ(sends.size(), 2U);
  ASSERT_TRUE(std::holds_alternative<Heartbeat>(sends[0].message));
  EXPECT_EQ(std::get<Heartbeat>(sends[0].message).progress->step, 100);
  EXPECT_TRUE(std::holds_alternative<Exit>(sends[1].message));
}

// What a suspended job is to go on from may be saved while no coordinator is there.
class MemberLeavesTest : public MemberStateTest {
 protected:
  // Its processes save a checkpoint and end, after the coordinator has gone.
  void save_alone() {
    join();
    run_generation(1);
    member.on_disconnected(now);
    member.on_terminate(143, seconds(25), now);
    WorkerMessage message;
    message.checkpoint = CheckpointReport{"step-100.g1", 100, 1, "ab"};
    member.on_worker_message(1, message, now);
    end_process(0);
    member.on_no_process_left(now);
  }
  void wait(Duration duration) {
    now += duration;
    member.on_tick(now);
  }
};

TEST_F(MemberLeavesTest, an_agent_stays_until_a_coordinator_knows_the_last_checkpoint) {
  save_alone();
  wait(seconds(29));
  EXPECT_TRUE(taken<ExitAgent>().empty());
  member.on_connected(now);
  forget();
  tell(Welcome{2});
  ASSERT_EQ(sent<Heartbeat>().size(), 1U);
  EXPECT_EQ(sent<Heartbeat>()[0].newest_checkpoint->name, "step-100.g1");
  wait(milliseconds(900));
  EXPECT_TRUE(taken<ExitAgent>().empty()) << "it may not have arrived";
  tell(Ack{1, 1});
  ASSERT_EQ(taken<ExitAgent>().size(), 1U);
  EXPECT_EQ(taken<ExitAgent>()[0].code, 143);
}

TEST_F(MemberLeavesTest, an_ack_may_take_as_long_as_the_checkpoint_takes_to_be_recorded) {
  save_alone();
  member.on_connected(now);
  tell(Welcome{2});
  wait(kReconnectWithin - seconds(1));
  EXPECT_TRUE(taken<ExitAgent>().empty());
  wait(seconds(1));
  EXPECT_EQ(taken<ExitAgent>().size(), 1U);
}

TEST_F(MemberLeavesTest, but_no_longer_than_a_new_leader_takes_to_be_found) {
  save_alone();
  EXPECT_LE(member.deadline(), now + kReconnectWithin);
  wait(kReconnectWithin - seconds(1));
  EXPECT_TRUE(taken<ExitAgent>().empty());
  wait(seconds(1));
  EXPECT_EQ(taken<ExitAgent>().size(), 1U);
}

TEST_F(MemberLeavesTest, a_connection_that_ends_before_the_ack_may_have_lost_the_checkpoint) {
  save_alone();
  member.on_connected(now);
  tell(Welcome{2});
  member.on_disconnected(now);
  wait(seconds(2));
  EXPECT_TRUE(taken<ExitAgent>().empty());
}

TEST_F(MemberLeavesTest, an_agent_that_has_saved_nothing_leaves_at_once) {
  join();
  run_generation(1);
  member.on_disconnected(now);
  member.on_terminate(143, seconds(25), now);
  end_process(0);
  member.on_no_process_left(now);
  EXPECT_EQ(taken<ExitAgent>().size(), 1U);
}

TEST_F(MemberLeavesTest, nor_does_it_stay_where_no_job_expects_it) {
  save_alone();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(taken<ExitAgent>().empty()) << "who has just begun to lead may not know the job yet";
    member.on_connected(now);
    tell(Refused{"no job expects pod now", false});
    member.on_disconnected(now);
    wait(seconds(1));
  }
  EXPECT_EQ(taken<ExitAgent>().size(), 1U);
}

TEST_F(MemberLeavesTest, nor_where_its_place_was_given_away_while_it_saved) {
  join();
  run_generation(1);
  tell(Refused{"slot 1 was given to incarnation 2", true});
  member.on_disconnected(now);
  WorkerMessage message;
  message.checkpoint = CheckpointReport{"step-100.g1", 100, 1, "ab"};
  member.on_worker_message(1, message, now);
  end_process(0);
  member.on_no_process_left(now);
  EXPECT_EQ(taken<ExitAgent>().size(), 1U);
}

TEST_F(MemberStateTest, a_pod_deleted_after_its_processes_succeeded_succeeds) {
  join();
  run_generation(1);
  end_process(0);
  member.on_no_process_left(now);
  tell(Ack{1, 1});
  forget();
  member.on_terminate(143, seconds(25), now);
  ASSERT_EQ(taken<ExitAgent>().size(), 1U);
  EXPECT_EQ(taken<ExitAgent>().at(0).code, 0);
}

}  // namespace
}  // namespace lockstep::rendezvous
