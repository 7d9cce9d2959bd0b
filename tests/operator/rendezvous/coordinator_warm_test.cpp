// The first generation comes to processes that have started before it.
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoordinatorWarmTest : public CoordinatorStateTest {
 protected:
  CoordinatorWarmTest() { answers_warm = false; }
  void all_come() {
    set_plan();
    loaded();
    join(0);
    join(1);
  }
  void starts(int slot) { say(slot, Heartbeat{.phase = MemberPhase::kRunning}); }
  void is_warm(int slot) { say(slot, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true}); }
  bool proposed() { return !sent<Propose>().empty(); }
  // Both say every quarter of a second that they start.
  void pass(Duration duration) {
    for (const MonotonicTime end = time + duration; time < end;) {
      time += milliseconds(250);
      starts(0);
      starts(1);
      job->on_tick(now());
      collect();
    }
  }
};

TEST_F(CoordinatorWarmTest, the_first_member_starts_its_processes_while_others_are_awaited) {
  set_plan();
  loaded();
  join(0);
  ASSERT_EQ(sent<Warm>().size(), 1U);
  const Warm warm = sent<Warm>().at(0);
  EXPECT_TRUE(warm.first);
  EXPECT_EQ(warm.go.id, (GenerationId{1, 0}));
  EXPECT_EQ(warm.go.first_rank, 0);
  EXPECT_EQ(warm.go.world_size, 2);
  EXPECT_EQ(job->view()->message, "waiting for slot 1 to connect");
  join(1);
  EXPECT_EQ(sent<Warm>().at(1).go.first_rank, 1);
  EXPECT_FALSE(proposed());
  EXPECT_EQ(job->view()->message, "waiting for the processes of slots 0, 1 to be ready to start");
}

TEST_F(CoordinatorWarmTest, propose_waits_until_the_last_process_is_warm) {
  all_come();
  starts(0);
  is_warm(0);
  starts(1);
  EXPECT_FALSE(proposed());
  EXPECT_EQ(job->view()->message, "waiting for the processes of slot 1 to be ready to start");
  is_warm(1);
  EXPECT_EQ(sent<Propose>().size(), 2U);
  EXPECT_EQ(taken<WriteRecord>().size(), 1U);
}

TEST_F(CoordinatorWarmTest, processes_that_start_hold_no_state) {
  all_come();
  starts(0);
  EXPECT_FALSE(job->view()->member_of(0)->alive);
}

TEST_F(CoordinatorWarmTest, a_foreign_program_gets_its_ranks_at_once) {
  plan.kind = Kind::kTorch;
  all_come();
  EXPECT_TRUE(sent<Warm>().empty());
  EXPECT_TRUE(proposed());
}

TEST_F(CoordinatorWarmTest, a_process_that_never_gets_warm_is_awaited_until_its_deadline) {
  plan.deadlines.start_timeout_seconds = 20;
  all_come();
  pass(seconds(19));
  EXPECT_FALSE(proposed());
  pass(seconds(1));
  EXPECT_TRUE(proposed());
}

TEST_F(CoordinatorWarmTest, an_agent_that_does_not_start_processes_is_awaited_for_two_seconds) {
  all_come();
  is_warm(0);
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(proposed()) << i;
    time += milliseconds(250);
    say(0, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true});
    say(1, Heartbeat{});
    job->on_tick(now());
  }
  EXPECT_TRUE(proposed());
}

TEST_F(CoordinatorWarmTest, a_program_that_is_up_and_cannot_be_regrouped_is_not_awaited) {
  all_come();
  is_warm(0);
  say(1, Heartbeat{.phase = MemberPhase::kRunning, .up = true});
  EXPECT_TRUE(proposed());
}

TEST_F(CoordinatorWarmTest, a_process_that_fails_is_accounted_for_without_waiting_for_others) {
  all_come();
  starts(0);
  starts(1);
  say(1, exit(1, 0, 65));
  ASSERT_TRUE(proposed());
  written();
  ready(0, 1);
  ready(1, 1);
  EXPECT_EQ(sent<Go>().size(), 2U);
  say(1, exit(1, 1, 65));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->exit_code, 65);
  EXPECT_EQ(job->view()->failure->generation, 1);
}

TEST_F(CoordinatorWarmTest, one_that_has_ended_well_is_no_reason_to_interrupt_the_others) {
  all_come();
  starts(1);
  say(0, exit(0, 0, 0));
  say(0, Heartbeat{.phase = MemberPhase::kExited});
  EXPECT_FALSE(proposed());
  say(1, exit(1, 0, 0));
  say(1, Heartbeat{.phase = MemberPhase::kExited});
  EXPECT_TRUE(proposed());
}

TEST_F(CoordinatorWarmTest, a_new_leader_waits_for_what_the_one_before_has_started) {
  all_come();
  job = make(2);
  seen.clear();
  set_plan();
  loaded();
  for (const int slot : {0, 1}) come_back(slot, MemberPhase::kRunning, 0);
  EXPECT_FALSE(proposed());
  EXPECT_TRUE(sent<Warm>().empty());
  is_warm(0);
  is_warm(1);
  EXPECT_TRUE(proposed());
}

TEST_F(CoordinatorWarmTest, the_port_that_was_asked_for_is_in_the_order) {
  plan.port = 29'500;
  all_come();
  EXPECT_EQ(sent<Warm>().at(0).go.master_port, 29'500);
}

TEST_F(CoordinatorWarmTest, after_a_failure_nobody_waits_for_a_new_process_to_load) {
  answers_warm = true;
  start();
  answers_warm = false;
  say(1, exit(1, 1, 137, 9));
  plan.handled_generation = 1;
  set_plan();
  EXPECT_EQ(sent<Propose>().size(), 2U);
  EXPECT_TRUE(sent<Warm>().empty());
}

TEST_F(CoordinatorWarmTest, pods_that_are_all_new_start_warm_again) {
  answers_warm = true;
  start();
  answers_warm = false;
  plan.members = {{0, 2, "b-0", "v0", "n0"}, {1, 2, "b-1", "v1", "n1"}};
  plan.handled_generation = 1;
  set_plan();
  join(0);
  join(1);
  EXPECT_EQ(sent<Warm>().size(), 2U);
  EXPECT_FALSE(proposed());
  is_warm(0);
  is_warm(1);
  EXPECT_TRUE(proposed());
}

}  // namespace
}  // namespace lockstep::rendezvous
