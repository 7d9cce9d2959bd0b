#include "tests/operator/rendezvous/member_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class MemberHangTest : public MemberStateTest {
 protected:
  void start() {
    join();
    run_generation(1);
    forget();
  }
  void pass(Duration time) {
    now += time;
    member.on_tick(now);
    collect();
  }
  Activity activity(std::int64_t step) { return {1, Activity::Doing::kForward, step, 7, 3}; }
  void worker_says(const Activity& said) { member.on_worker_message(1, WorkerMessage{.activity = said}, now); }
};

TEST_F(MemberHangTest, heartbeats_carry_what_processes_say_its_age_and_their_state) {
  start();
  worker_says(activity(41));
  member.on_process_state(1, 'T');
  pass(milliseconds(250));
  ASSERT_EQ(sent<Heartbeat>().size(), 1U);
  EXPECT_EQ(sent<Heartbeat>().at(0).ranks, (std::vector<RankActivity>{{'T', 250, activity(41)}}));
  pass(milliseconds(250));
  EXPECT_EQ(sent<Heartbeat>().at(1).ranks.at(0).age_ms, 500) << "a stopped process says nothing more";
}

TEST_F(MemberHangTest, a_report_after_the_clock_was_read_is_not_from_the_future) {
  start();
  const MonotonicTime looked = now + kHeartbeatEvery;
  now = looked + milliseconds(5);  // a busy machine ran something else meanwhile
  worker_says(activity(41));
  member.on_tick(looked);
  ASSERT_EQ(sent<Heartbeat>().size(), 1U);
  EXPECT_EQ(sent<Heartbeat>().at(0).ranks.at(0).age_ms, 0);
}

TEST_F(MemberHangTest, a_program_that_tells_nothing_has_a_state_all_the_same) {
  start();
  member.on_process_state(1, 'D');
  pass(milliseconds(250));
  EXPECT_EQ(sent<Heartbeat>().at(0).ranks, (std::vector<RankActivity>{{'D', 0, std::nullopt}}));
}

TEST_F(MemberHangTest, without_processes_there_is_nothing_to_tell) {
  join();
  pass(milliseconds(250));
  EXPECT_TRUE(sent<Heartbeat>().back().ranks.empty());
}

TEST_F(MemberHangTest, a_hung_process_gets_sigabrt_and_after_a_grace_sigkill) {
  start();
  tell(Abort{1, 1, "it sleeps"});
  ASSERT_EQ(taken<AbortProcess>().size(), 1U);
  EXPECT_EQ(taken<AbortProcess>().at(0).rank, 1);
  EXPECT_TRUE(taken<KillProcess>().empty());
  EXPECT_LE(member.deadline(), now + kAbortGrace);
  pass(kAbortGrace - milliseconds(1));
  EXPECT_TRUE(taken<KillProcess>().empty());
  pass(milliseconds(1));
  EXPECT_EQ(taken<KillProcess>().size(), 1U);
  pass(seconds(2));
  EXPECT_EQ(taken<KillProcess>().size(), 1U) << "once";
}

TEST_F(MemberHangTest, its_exit_says_that_it_hung_and_why) {
  start();
  tell(Abort{1, 1, "it sleeps"});
  end_process(134, 6);
  ASSERT_EQ(sent<Exit>().size(), 1U);
  EXPECT_EQ(sent<Exit>().at(0).problem, api::Cause::kHang);
  EXPECT_EQ(sent<Exit>().at(0).message, "it sleeps");
  EXPECT_EQ(sent<Exit>().at(0).reason, Exit::Reason::kOwn);
  EXPECT_EQ(sent<Exit>().at(0).stderr_tail, "tail");
  pass(seconds(2));
  EXPECT_TRUE(taken<KillProcess>().empty()) << "nothing is left to kill";
}

TEST_F(MemberHangTest, one_that_was_done_after_all_did_not_hang) {
  start();
  tell(Abort{1, 1, "it sleeps"});
  end_process(0);
  EXPECT_TRUE(sent<Exit>().at(0).problem == api::Cause::kNone);
}

TEST_F(MemberHangTest, an_abort_of_another_generation_or_an_ending_rank_is_ignored) {
  start();
  const std::int64_t ignored = member.ignored();
  tell(Abort{0, 1, ""});
  tell(Abort{2, 1, ""});
  tell(Abort{1, 0, ""});
  tell(Halt{{1, 1}});
  tell(Abort{1, 1, ""});
  EXPECT_TRUE(taken<AbortProcess>().empty());
  EXPECT_EQ(member.ignored(), ignored + 4);
}

TEST_F(MemberHangTest, the_same_order_twice_kills_no_sooner_and_no_later) {
  start();
  tell(Abort{1, 1, "it sleeps"});
  now += seconds(1);
  tell(Abort{1, 1, "it sleeps"});
  EXPECT_EQ(taken<AbortProcess>().size(), 1U);
  pass(milliseconds(500));
  EXPECT_EQ(taken<KillProcess>().size(), 1U);
}

TEST_F(MemberHangTest, a_process_that_is_being_aborted_is_not_kept) {
  join();
  tell(proposal(1));
  prepared(1);
  tell(go(1));
  member.on_worker_message(1, WorkerMessage{.up = true, .regroups = true}, now);
  tell(Abort{1, 1, "it sleeps"});
  forget();
  tell(proposal(2));
  EXPECT_TRUE(taken<AskHoldings>().empty());
  EXPECT_EQ(taken<EndProcesses>().size(), 1U);
}

}  // namespace
}  // namespace lockstep::rendezvous
