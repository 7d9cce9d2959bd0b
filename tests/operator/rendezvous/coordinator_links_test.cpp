// Members that are all there and lose one another: linked anew once, and then one of them makes room.
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoordinatorLinksTest : public CoordinatorStateTest {
 protected:
  void wait_for_a_death() {
    time += milliseconds(200);
    for (const int slot : {0, 1}) say(slot, Heartbeat{.phase = MemberPhase::kRunning, .regroups = true});
    job->on_tick(now());
  }
  // Both ranks say that they have lost the other one.
  void lose_one_another(std::int64_t generation, bool stepped) {
    say(0, Broken{0, {generation, 1, "no answer", false, stepped}});
    say(1, Broken{1, {generation, 0, "no answer", false, stepped}});
    wait_for_a_death();
  }
  void deal_with(std::int64_t generation) {
    plan.handled_generation = generation;
    set_plan();
  }
  void form_again(std::int64_t generation) {
    deal_with(generation - 1);
    written();
    ready(0, generation);
    ready(1, generation);
  }
  std::string cause() const { return job->view()->failure ? job->view()->failure->cause : ""; }
};

TEST_F(CoordinatorLinksTest, the_same_link_that_fails_again_before_a_step_costs_one_of_its_ends) {
  start();
  lose_one_another(1, true);
  EXPECT_EQ(cause(), "ConnectionBroken");
  form_again(2);
  lose_one_another(2, false);
  const Failure failure = *job->view()->failure;
  EXPECT_EQ(failure.cause, "Partitioned");
  EXPECT_EQ(failure.slot, 1);
  EXPECT_EQ(failure.rank, 1);
  for (const char* part : {"slot 1 (pod a-1, node n1)", "slot 0 (pod a-0, node n0)", "no answer"}) {
    EXPECT_NE(failure.message.find(part), std::string::npos) << failure.message;
  }
}

TEST_F(CoordinatorLinksTest, after_a_step_it_is_linked_anew_as_often_as_it_fails) {
  start();
  for (std::int64_t generation = 1; generation < 5; ++generation) {
    lose_one_another(generation, true);
    EXPECT_EQ(cause(), "ConnectionBroken");
    form_again(generation + 1);
  }
}

TEST_F(CoordinatorLinksTest, a_step_that_an_agent_told_of_counts_as_well) {
  start();
  lose_one_another(1, true);
  form_again(2);
  time += milliseconds(10);
  beat(0, 2, 1);
  lose_one_another(2, false);
  EXPECT_EQ(cause(), "ConnectionBroken");
}

TEST_F(CoordinatorLinksTest, the_gang_waits_for_another_pod_in_its_place) {
  start();
  lose_one_another(1, true);
  form_again(2);
  lose_one_another(2, false);
  forget();
  deal_with(2);
  time += seconds(1);
  wait_for_a_death();
  EXPECT_TRUE(sent<Propose>().empty()) << "the old pod is still there, and connected";
  plan.members[1] = {1, 2, "a-1-2", "u1-2", "n2"};
  set_plan();
  join(1);
  ASSERT_EQ(sent<Propose>().size(), 2U);
  EXPECT_EQ(sent<Propose>()[0].epoch.generation, 3);
}

TEST_F(CoordinatorLinksTest, an_elastic_gang_goes_on_without_it_at_once_and_does_not_keep_it_warm) {
  start();
  plan.min_slots = 1;
  set_plan();
  for (const int slot : {0, 1}) say(slot, Up{1, true});
  lose_one_another(1, true);
  form_again(2);
  forget();
  lose_one_another(2, false);
  ASSERT_EQ(sent<Propose>().size(), 1U);
  deal_with(2);
  written();
  ready(0, 3);
  ASSERT_EQ(sent<Go>().size(), 1U);
  EXPECT_EQ(sent<Go>()[0].world_size, 1);
  say(0, Up{3, true});
  forget();
  for (int i = 0; i < 8; ++i) {
    time += milliseconds(250);
    beat(0, 3, i + 1);
    say(1, Heartbeat{.phase = MemberPhase::kIdle, .regroups = true});
    job->on_tick(now());
  }
  EXPECT_EQ(phase(), Phase::kUp);
  EXPECT_TRUE(sent<Warm>().empty());
  EXPECT_TRUE(sent<Yield>().empty()) << "it is not taken in again";
}

TEST_F(CoordinatorLinksTest, processes_that_never_linked_and_ended_for_it_count_as_well) {
  start();
  const auto end_both = [this](std::int64_t generation) {
    for (const int rank : {0, 1}) {
      Exit end = exit(rank, generation, kExitCommunication);
      end.report = FailureReport{FailureReport::Class::kCommunication, 1 - rank, "could not link"};
      say(rank, end);
    }
    wait_for_a_death();
  };
  end_both(1);
  EXPECT_EQ(cause(), "ProcessExit");
  form_again(2);
  end_both(2);
  EXPECT_EQ(cause(), "Partitioned");
  EXPECT_FALSE(job->view()->failure->exit_code) << "it is no failure of the process";
}

TEST_F(CoordinatorLinksTest, of_one_end_that_says_nothing_the_pod_is_made_anew) {
  start();
  for (const std::int64_t generation : {1, 2}) {
    say(1, Broken{1, {generation, 0, "no answer", false, generation == 1}});
    wait_for_a_death();
    if (generation == 1) form_again(2);
  }
  EXPECT_EQ(cause(), "Partitioned");
  EXPECT_EQ(job->view()->failure->slot, 0);
}

TEST_F(CoordinatorLinksTest, what_an_earlier_coordinator_saw_does_not_count) {
  start();
  lose_one_another(1, true);
  form_again(2);
  job = make(2);
  set_plan();
  loaded();
  written();
  come_back(0, MemberPhase::kRunning, 2);
  come_back(1, MemberPhase::kRunning, 2);
  lose_one_another(2, false);
  EXPECT_EQ(cause(), "ConnectionBroken");
}

}  // namespace
}  // namespace lockstep::rendezvous
