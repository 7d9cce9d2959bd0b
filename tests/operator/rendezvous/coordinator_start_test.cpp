// A generation that does not start: a member that cannot be READY, or does not come up in time.
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;

TEST_F(CoordinatorStateTest, a_port_in_use_is_a_failure_of_the_generation) {
  plan.port = 29'500;
  set_plan();
  loaded();
  join(0);
  join(1);
  written();
  EXPECT_EQ(sent<Propose>().at(0).port, 29'500);
  Ready message;
  message.id = {1, 1};
  message.problem = api::Cause::kPortInUse;
  message.message = "port 29500 is taken";
  say(0, message);
  EXPECT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kPortInUse);
  EXPECT_EQ(job->view()->failure->generation, 1);
}

TEST_F(CoordinatorStateTest, a_ready_with_an_unknown_problem_is_a_failure_of_the_process) {
  set_plan();
  loaded();
  join(0);
  join(1);
  written();
  say(0, *decode_from_agent(R"({"type":"READY","term":1,"generation":1,"problem":"NodeLost","message":"so it says"})"));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kProcessFailed);
  EXPECT_EQ(job->view()->failure->message, "the agent says \"NodeLost\": so it says");
}

TEST_F(CoordinatorStateTest, a_member_not_ready_in_time_is_named) {
  set_plan();
  loaded();
  join(0);
  join(1);
  written();
  ready(0, 1);
  for (int i = 0; i < 23; ++i) {
    time += milliseconds(250);
    beat(0, 0);
    beat(1, 0);
  }
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kStartTimeout);
  EXPECT_EQ(job->view()->failure->slot, 1);
}

// Two members that have GO and 3 s to come up.
class ComingUp : public CoordinatorStateTest {
 protected:
  ComingUp() {
    plan.deadlines.start_timeout_seconds = 3;
    set_plan();
    loaded();
    join(0);
    join(1);
    written();
    ready(0, 1);
    ready(1, 1);
    heartbeat.phase = MemberPhase::kRunning;
    heartbeat.generation = 1;
  }
  void miss_the_deadline() {
    for (int i = 0; i < 13; ++i) {
      time += milliseconds(250);
      say(0, heartbeat);
      say(1, heartbeat);
    }
  }
  Heartbeat heartbeat;
};

TEST_F(ComingUp, a_member_that_does_not_come_up_in_time_is_named) {
  say(0, Up{1});
  miss_the_deadline();
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kStartTimeout);
  EXPECT_EQ(job->view()->failure->slot, 1);
}

TEST_F(ComingUp, the_rank_that_still_loads_is_blamed) {
  Heartbeat loaded = heartbeat;
  loaded.identities = {{1, "model=mlp"}};
  say(0, loaded);
  miss_the_deadline();
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kStartTimeout);
  EXPECT_EQ(job->view()->failure->slot, 1) << job->view()->failure->message;
  EXPECT_EQ(job->view()->failure->rank, 1);
}

TEST_F(ComingUp, no_rank_is_blamed_while_all_load) {
  miss_the_deadline();
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kStartTimeout);
  EXPECT_EQ(job->view()->failure->slot, -1) << job->view()->failure->message;
  EXPECT_EQ(job->view()->failure->rank, -1);
}

TEST_F(ComingUp, a_rank_that_reads_a_checkpoint_may_come_up_later_by_as_long_as_it_says) {
  Activity reads{1, Activity::Doing::kStarting};
  for (reads.may_rest_ms = 20'000; reads.may_rest_ms > 0; reads.may_rest_ms -= 250) {
    time += milliseconds(250);
    say(0, heartbeat);
    heartbeat.ranks = {{'D', 0, reads}};
    say(1, heartbeat);
    heartbeat.ranks.clear();
    ASSERT_EQ(phase(), Phase::kStarting) << reads.may_rest_ms;
  }
  for (int i = 0; i < 2; ++i) {
    time += milliseconds(250);
    say(0, heartbeat);
    say(1, heartbeat);
  }
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kStartTimeout);
}

}  // namespace
}  // namespace lockstep::rendezvous
