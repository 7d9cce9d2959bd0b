// Members that are all there and lose one another: they reconnect once, and then one of them makes room.
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
  api::Cause cause() const { return job->view()->failure ? job->view()->failure->cause : api::Cause::kNone; }
};

TEST_F(CoordinatorLinksTest, the_same_link_that_fails_again_before_a_step_costs_one_of_its_ends) {
  start();
  lose_one_another(1, true);
  EXPECT_EQ(cause(), api::Cause::kConnectionBroken);
  form_again(2);
  lose_one_another(2, false);
  const Failure failure = *job->view()->failure;
  EXPECT_EQ(failure.cause, api::Cause::kPartitioned);
  EXPECT_EQ(failure.slot, 1);
  EXPECT_EQ(failure.rank, 1);
  for (const char* part : {"slot 1 (pod a-1, node n1)", "slot 0 (pod a-0, node n0)", "no answer"}) {
    EXPECT_NE(failure.message.find(part), std::string::npos) << failure.message;
  }
}

TEST_F(CoordinatorLinksTest, after_a_step_a_link_reconnects_as_often_as_it_fails) {
  start();
  for (std::int64_t generation = 1; generation < 5; ++generation) {
    lose_one_another(generation, true);
    EXPECT_EQ(cause(), api::Cause::kConnectionBroken);
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
  EXPECT_EQ(cause(), api::Cause::kConnectionBroken);
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
  EXPECT_EQ(sent<Propose>()[0].id.generation, 3);
}

TEST_F(CoordinatorLinksTest, an_elastic_gang_goes_on_without_it_at_once_and_does_not_keep_it_warm) {
  start();
  plan.elastic.min_slots = 1;
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
  EXPECT_EQ(cause(), api::Cause::kProcessExit);
  form_again(2);
  end_both(2);
  EXPECT_EQ(cause(), api::Cause::kPartitioned);
  EXPECT_FALSE(job->view()->failure->exit_code) << "it is no failure of the process";
}

TEST_F(CoordinatorLinksTest, of_one_end_that_says_nothing_the_pod_is_recreated) {
  start();
  for (const std::int64_t generation : {1, 2}) {
    say(1, Broken{1, {generation, 0, "no answer", false, generation == 1}});
    wait_for_a_death();
    if (generation == 1) form_again(2);
  }
  EXPECT_EQ(cause(), api::Cause::kPartitioned);
  EXPECT_EQ(job->view()->failure->slot, 0);
}

TEST_F(CoordinatorLinksTest, a_coordinator_that_hears_from_no_member_evicts_none) {
  start();
  for (int i = 0; i < 4 * 60; ++i) {
    time += milliseconds(250);
    if (i == 8) job->on_disconnected(kFirst + 1, now());
    job->on_tick(now());
    ASSERT_EQ(phase(), Phase::kUp) << "after " << i / 4 << " s";
  }
  come_back(0, MemberPhase::kRunning, 1, kFirst + 100);
  come_back(1, MemberPhase::kRunning, 1, kFirst + 100);
  EXPECT_EQ(phase(), Phase::kUp) << "they have trained on";
}

TEST_F(CoordinatorLinksTest, a_member_still_silent_when_another_speaks_again_is_lost) {
  start();
  for (int i = 0; i < 80; ++i) {
    time += milliseconds(250);
    job->on_tick(now());
  }
  come_back(0, MemberPhase::kRunning, 1, kFirst + 100);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(phase(), Phase::kUp) << "it has five seconds to find the way";
    time += milliseconds(250);
    come_back(0, MemberPhase::kRunning, 1, kFirst + 200 + 100 * static_cast<SessionId>(i));
  }
  time += milliseconds(250);
  job->on_tick(now());
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->slot, 1);
}

TEST_F(CoordinatorLinksTest, silence_before_agents_find_a_new_coordinator_is_no_outage) {
  start();
  time += seconds(6);
  another_leads();
  for (int i = 0; i < 8; ++i) {  // two seconds, in which the agents look for it
    time += milliseconds(250);
    job->on_tick(now());
  }
  come_back(0, MemberPhase::kRunning, 1, kFirst + 100);
  for (int i = 0; i < 13; ++i) {
    time += milliseconds(250);
    come_back(0, MemberPhase::kRunning, 1, kFirst + 200 + 100 * static_cast<SessionId>(i));
  }
  ASSERT_EQ(phase(), Phase::kBroken) << "five seconds after it began";
  EXPECT_EQ(job->view()->failure->slot, 1);
}

TEST_F(CoordinatorLinksTest, after_the_time_for_which_agents_train_on_alone_nobody_is_left) {
  start();
  for (int i = 0; i < 4 * 599; ++i) {
    time += milliseconds(250);
    job->on_tick(now());
  }
  EXPECT_EQ(phase(), Phase::kUp);
  for (int i = 0; i < 4 * 2; ++i) {
    time += milliseconds(250);
    job->on_tick(now());
  }
  EXPECT_EQ(cause(), api::Cause::kMemberLost);
}

TEST_F(CoordinatorLinksTest, the_only_member_of_a_generation_that_falls_silent_is_lost) {
  plan.slots = 1;
  plan.members.resize(1);
  set_plan();
  loaded();
  join(0);
  written();
  ready(0, 1);
  say(0, Up{1});
  time += seconds(6);
  beat(0, 1);
  for (int i = 0; i < 13; ++i) {
    time += milliseconds(250);
    job->on_tick(now());
  }
  EXPECT_EQ(cause(), api::Cause::kMemberLost);
}

// Slot 0 trains alone; slot 1 has come and is warm.
class CoordinatorEchoTest : public CoordinatorLinksTest {
 protected:
  void begin() {
    plan.elastic.min_slots = 1;
    set_plan();
    loaded();
    join(0);
    written();
    ready(0, 1);
    say(0, Up{1, true});
    join(1);
    pass(seconds(1), MemberPhase::kWarm);
  }
  void pass(Duration duration, MemberPhase newcomer) {
    for (const auto end = time + duration; time < end;) {
      time += milliseconds(250);
      Heartbeat trains{.phase = MemberPhase::kRunning, .generation = 1, .up = true, .regroups = true};
      trains.progress = Progress{
          .step = ++step, .total_steps = 1000, .epoch = 0, .loss = 1.0, .samples_per_second = 1.0, .eta_seconds = 1.0};
      say(0, trains);
      say(1, Heartbeat{.phase = newcomer, .regroups = true});
      job->on_tick(now());
      collect();
    }
  }
  std::int64_t step = 0;
};

TEST_F(CoordinatorEchoTest, a_newcomer_that_reaches_all_data_addresses_is_taken_in) {
  begin();
  ASSERT_EQ(sent<Echo>().size(), 1U);
  EXPECT_EQ(sent<Echo>()[0].generation, 1);
  EXPECT_EQ(sent<Echo>()[0].peers->addresses(), (std::vector<std::string>{"10.0.0.0:1"}));
  EXPECT_EQ(sent<Yield>().size(), 1U);
}

TEST_F(CoordinatorEchoTest, one_that_does_not_is_left_out_and_asked_again_less_and_less_often) {
  unreached = "10.0.0.0:1: no answer";
  begin();
  pass(seconds(60), MemberPhase::kWarm);
  EXPECT_TRUE(sent<Yield>().empty()) << "nobody ends a step for it";
  EXPECT_EQ(sent<Echo>().size(), 5U) << "after 2, 4, 8 and 16 s again";
  EXPECT_EQ(job->view()->message, "slot 1 is not taken in, because it does not reach 10.0.0.0:1: no answer");
  unreached.clear();
  pass(seconds(33), MemberPhase::kWarm);
  EXPECT_EQ(sent<Yield>().size(), 1U);
}

TEST_F(CoordinatorEchoTest, one_that_is_not_warm_is_not_asked) {
  begin();
  forget();
  pass(seconds(5), MemberPhase::kIdle);
  EXPECT_TRUE(sent<Echo>().empty());
}

TEST_F(CoordinatorEchoTest, one_whose_agent_knows_no_echo_is_taken_in_after_five_seconds) {
  answers_echo = false;
  begin();
  pass(seconds(4), MemberPhase::kWarm);
  EXPECT_TRUE(sent<Yield>().empty());
  pass(seconds(1), MemberPhase::kWarm);
  EXPECT_EQ(sent<Echo>().size(), 1U);
  EXPECT_EQ(sent<Yield>().size(), 1U);
}

TEST_F(CoordinatorEchoTest, an_unreachable_joiner_is_left_out_when_another_member_fails) {
  unreached = "10.0.0.0:1: no answer";
  begin();
  forget();
  say(0, exit(0, 1, 137, 9));
  deal_with(1);
  ASSERT_EQ(sent<Propose>().size(), 1U) << "only the one that trained";
  written();
  EXPECT_EQ(stored.record.members.size(), 1U);
}

TEST_F(CoordinatorLinksTest, what_an_earlier_coordinator_saw_does_not_count) {
  start();
  lose_one_another(1, true);
  form_again(2);
  another_leads();
  come_back(0, MemberPhase::kRunning, 2);
  come_back(1, MemberPhase::kRunning, 2);
  lose_one_another(2, false);
  EXPECT_EQ(cause(), api::Cause::kConnectionBroken);
}

}  // namespace
}  // namespace lockstep::rendezvous
