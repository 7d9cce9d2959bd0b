// The coordinator's side of a gang that may run with fewer slots: who goes on when some are lost, and who is taken in.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr SessionId kAgain = kFirst + 50;  // of a slot's second connection, with the slot added

// Three slots, of which two are enough.
class CoordinatorElasticTest : public CoordinatorStateTest {
 protected:
  CoordinatorElasticTest() {
    plan.slots = 3;
    plan.min_slots = 2;
    plan.stabilization_seconds = 10;
    plan.members.push_back({2, 1, "a-2", "u2", "n2"});
  }
  void ready_of(const std::vector<int>& slots, std::int64_t generation) {
    for (const int slot : slots) ready(slot, generation);
  }
  void up(const std::vector<int>& slots, std::int64_t generation) {
    ready_of(slots, generation);
    for (const int slot : slots) {
      say(slot, Up{generation});
      beat(slot, generation);
    }
  }
  void run_three() {
    set_plan();
    loaded();
    for (const int slot : {0, 1, 2}) join(slot);
    written();
    up({0, 1, 2}, 1);
    time += seconds(6);  // past the time without evictions
    for (const int slot : {0, 1, 2}) beat(slot, 1);
    forget();
  }
  // The controller has dealt with that generation.
  void handled(std::int64_t generation) {
    plan.handled_generation = generation;
    set_plan();
  }
  // And knows that the pod of `slot` is gone.
  void pod_is_gone(int slot, std::int64_t generation = 1) {
    std::erase_if(plan.members, [&](const auto& member) { return member.slot == slot; });
    handled(generation);
  }
  void pod_is_new(int slot) {
    plan.members.push_back({slot, 2, fmt::format("a-{}-2", slot), fmt::format("v{}", slot), "n9"});
    set_plan();
    job->on_hello(kAgain + static_cast<SessionId>(slot), hello(slot), now());
  }
  // Two of three run generation 2, after the process of slot 2 died.
  void go_on_without_two() {
    run_three();
    for (const int slot : {0, 1, 2}) say(slot, stays(1));
    say(2, exit(2, 1, 137, 9));
    handled(1);
    written();
    up({0, 1}, 2);
  }
  // Two of three run generation 2, after slot 0 was lost.
  void run_two() {
    run_three();
    pod_is_gone(0);
    written();
    up({1, 2}, 2);
    forget();
  }
  // The heartbeat of a member whose processes can stay.
  static Heartbeat stays(std::int64_t generation, std::int64_t step = 0) {
    Heartbeat heartbeat{.phase = MemberPhase::kRunning, .generation = generation, .up = true, .regroups = true};
    if (step > 0) heartbeat.progress = Progress{.step = step, .total_steps = 100};
    return heartbeat;
  }
  std::int64_t proposed() { return sent<Propose>().back().epoch.generation; }
  // The process of `rank` has ended that generation in band.
  void yielded(int slot, int rank, std::int64_t generation) {
    say(slot, Broken{rank, {generation, -1, "others join", true}});
  }
  void silence_until(Duration wait, const std::vector<int>& speaking, std::int64_t generation) {
    for (const MonotonicTime end = time + wait; time < end; time += milliseconds(250)) {
      for (const int slot : speaking) beat(slot, generation);
      job->on_tick(now());
    }
  }
};

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
  EXPECT_EQ(gos[0].peers, (std::vector<std::string>{"10.0.0.1:1", "10.0.0.2:1"}));
  EXPECT_EQ(gos[0].member_of_rank, (std::vector<int>{1, 2}));
}

TEST_F(CoordinatorElasticTest, those_whose_processes_live_do_not_wait_for_one_to_be_started_anew) {
  run_three();
  for (const int slot : {0, 1, 2}) say(slot, stays(1));
  say(2, exit(2, 1, 137, 9));
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 2U);
  EXPECT_EQ(proposals[0].world_size, 2);
}

TEST_F(CoordinatorElasticTest, below_the_minimum_all_wait_for_the_process_that_is_started_anew) {
  plan.min_slots = 2;
  run_three();
  for (const int slot : {0, 1, 2}) say(slot, stays(1));
  say(2, exit(2, 1, 137, 9));
  say(1, exit(1, 1, 137, 9));
  EXPECT_EQ(sent<Propose>().back().world_size, 3);
}

TEST_F(CoordinatorElasticTest, who_is_left_out_is_warmed_and_taken_in_when_it_is_warm) {
  go_on_without_two();
  for (const int slot : {0, 1}) say(slot, stays(2));
  say(2, Heartbeat{.phase = MemberPhase::kExited, .generation = 1});
  EXPECT_TRUE(sent<Warm>().empty()) << "the others are in their first step, perhaps on the same machine";
  time += milliseconds(100);
  say(0, stays(2, 9));
  ASSERT_EQ(sent<Warm>().size(), 1U);
  const Go go = sent<Warm>().at(0).go;
  EXPECT_EQ(go.epoch, (Epoch{1, 0}));
  EXPECT_EQ(go.first_rank, 2);
  EXPECT_EQ(go.world_size, 3);
  forget();
  say(2, Heartbeat{.phase = MemberPhase::kRunning});
  EXPECT_TRUE(sent<Yield>().empty()) << "it is not warm yet";
  EXPECT_TRUE(sent<Warm>().empty()) << "once is enough";
  say(2, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true});
  EXPECT_EQ(sent<Yield>().size(), 2U);
  yielded(0, 0, 2);
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

TEST_F(CoordinatorElasticTest, what_a_recovery_took_stays_to_be_read_when_others_are_taken_in_after_it) {
  go_on_without_two();
  for (const int slot : {0, 1}) say(slot, stays(2));
  say(2, Heartbeat{.phase = MemberPhase::kExited, .generation = 1});
  time += milliseconds(100);
  say(0, stays(2, 9));
  const RecoveryTimes recovery = job->view()->times;
  EXPECT_EQ(recovery.after, 1);
  EXPECT_GE(recovery.agree_ms, 0);
  EXPECT_GE(recovery.start_ms, 0);
  EXPECT_EQ(recovery.first_step_ms, 100);
  say(2, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true});
  time += milliseconds(40);
  for (const int slot : {0, 1}) yielded(slot, slot, 2);
  written();
  time += milliseconds(40);
  up({0, 1, 2}, 3);
  time += milliseconds(40);
  for (const int slot : {0, 1, 2}) say(slot, stays(3, 10));
  ASSERT_EQ(job->view()->generation, 3);
  EXPECT_EQ(job->view()->times, recovery);
  say(2, exit(2, 3, 137, 9));
  EXPECT_EQ(job->view()->times, (RecoveryTimes{.after = 3}));
}

// The lowest slot has told of no step yet, and another has.
TEST_F(CoordinatorElasticTest, the_first_step_of_a_recovery_is_told_when_others_are_taken_in_before_it_is_reported) {
  run_three();
  for (const int slot : {0, 1, 2}) say(slot, stays(1, 8));
  say(2, exit(2, 1, 137, 9));
  handled(1);
  written();
  up({0, 1}, 2);
  for (const int slot : {0, 1}) say(slot, stays(2));
  say(0, stays(2, 8));
  say(2, Heartbeat{.phase = MemberPhase::kExited, .generation = 1});
  time += milliseconds(60);
  say(1, stays(2, 9));
  time += milliseconds(60);
  say(2, Heartbeat{.phase = MemberPhase::kWarm, .regroups = true});
  ASSERT_EQ(sent<Yield>().size(), 2U);
  EXPECT_EQ(job->view()->times.first_step_ms, 60);
}

TEST_F(CoordinatorElasticTest, a_first_step_that_takes_long_keeps_nobody_from_getting_warm) {
  go_on_without_two();
  for (const int ms : {250, 500}) {
    EXPECT_TRUE(sent<Warm>().empty()) << ms;
    time += milliseconds(250);
    for (const int slot : {0, 1}) say(slot, stays(2));
  }
  EXPECT_EQ(sent<Warm>().size(), 1U);
}

TEST_F(CoordinatorElasticTest, a_member_that_did_not_hear_that_it_is_to_get_warm_is_told_again) {
  go_on_without_two();
  for (int i = 0; i < 10; ++i) {
    time += milliseconds(250);
    for (const int slot : {0, 1}) say(slot, stays(2));
    say(2, Heartbeat{.phase = MemberPhase::kExited, .generation = 1});
  }
  EXPECT_EQ(sent<Warm>().size(), 2U);
}

TEST_F(CoordinatorElasticTest, the_state_comes_from_right_before_who_needs_it) {
  run_three();
  for (const int slot : {0, 1, 2}) say(slot, stays(1));
  say(1, exit(1, 1, 137, 9));
  plan.min_slots = 0;
  handled(1);
  written();
  for (const int slot : {0, 1, 2}) {
    Ready message;
    message.epoch = {1, proposed()};
    message.addresses = {fmt::format("10.0.0.{}:1", slot)};
    if (slot != 1) message.holdings = {{1, 7, "aa"}};
    say(slot, message);
  }
  ASSERT_FALSE(sent<Go>().empty());
  EXPECT_EQ(sent<Go>().at(0).source.rank, 0);
  EXPECT_TRUE(sent<Go>().at(0).source.send);
}

TEST_F(CoordinatorElasticTest, who_is_known_to_be_lost_is_not_waited_for) {
  run_three();
  job->on_disconnected(kFirst + 2, now());
  say(0, Broken{0, {1, 2, "a link broke"}});
  ASSERT_EQ(job->view()->failure->cause, "MemberLost");
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
  plan.min_slots = 0;
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

TEST_F(CoordinatorElasticTest, who_lost_the_connection_a_moment_ago_is_waited_for) {
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

// DESIGN 6.2: without the one that is ready, its generation makes no further step.
TEST_F(CoordinatorElasticTest, one_that_is_silent_but_not_known_to_be_dead_is_left_behind_once_another_is_ready) {
  run_three();
  silence_until(seconds(4), {0, 1}, 1);
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, "MemberLost");
  EXPECT_EQ(job->view()->failure->slot, 2);
  handled(1);
  written();
  EXPECT_TRUE(sent<Go>().empty());
  ready_of({0, 1}, 2);
  EXPECT_EQ(sent<Go>().size(), 2U);
}

// A machine under all of them stands still for a moment just when one has died.
TEST_F(CoordinatorElasticTest, a_moment_in_which_nobody_is_heard_of_does_not_put_off_the_loss_of_one) {
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

TEST_F(CoordinatorElasticTest, whoever_is_heard_of_again_as_long_after_the_others_as_nobody_was_is_not_lost) {
  run_three();
  silence_until(milliseconds(2000), {}, 1);
  silence_until(milliseconds(2000), {0, 1}, 1);  // its TCP waits twice as long each time
  for (const int slot : {0, 1, 2}) beat(slot, 1);
  EXPECT_EQ(phase(), Phase::kUp);
}

TEST_F(CoordinatorElasticTest, newcomers_alone_do_not_go_on_while_one_of_before_may_be_at_work) {
  plan.min_slots = 1;
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

TEST_F(CoordinatorElasticTest, of_a_foreign_program_a_silent_one_may_still_be_at_work_and_holds_the_others_up) {
  plan.kind = Kind::kTorch;
  run_three();
  silence_until(seconds(4), {0, 1}, 1);
  handled(1);
  EXPECT_TRUE(sent<Propose>().empty());
  EXPECT_EQ(job->view()->message, "waiting for a member that is silent");
}

TEST_F(CoordinatorElasticTest, one_that_comes_back_after_it_was_left_behind_is_halted_and_taken_in) {
  run_three();
  silence_until(seconds(4), {0, 1}, 1);
  handled(1);
  written();
  up({0, 1}, 2);
  forget();
  come_back(2, MemberPhase::kRunning, 1, kAgain);
  EXPECT_EQ(sent<Halt>().size(), 1U);
  EXPECT_TRUE(sent<Propose>().empty()) << "the others have not got a step further";
  time += milliseconds(250);
  beat(1, 2);
  beat(0, 2, 7);
  EXPECT_EQ(sent<Yield>().size(), 2U);
  yielded(0, 0, 2);
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

TEST_F(CoordinatorElasticTest, a_gang_that_is_whole_again_takes_the_newcomer_in_after_its_next_step) {
  run_two();
  pod_is_new(0);
  EXPECT_TRUE(sent<Yield>().empty());
  time += milliseconds(100);
  beat(1, 2, 8);
  EXPECT_EQ(sent<Yield>().size(), 2U) << "those who train";
  EXPECT_TRUE(sent<Propose>().empty()) << "and go on with it until they have ended a step";
  EXPECT_EQ(job->view()->message, "slot 0 will join after this step");
  yielded(2, 1, 2);
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 3U);
  EXPECT_EQ(proposals[0].epoch.generation, 3);
  EXPECT_EQ(proposals[0].world_size, 3);
  EXPECT_EQ(proposals[2].first_rank, 2);
  written();
  EXPECT_EQ(stored.record.members.size(), 3U);
}

TEST_F(CoordinatorElasticTest, one_of_several_newcomers_waits_until_nobody_has_come_for_a_while) {
  run_two();
  plan.slots = 4;
  pod_is_new(0);
  time += seconds(1);
  beat(1, 2, 8);
  beat(2, 2);
  EXPECT_TRUE(sent<Yield>().empty());
  silence_until(seconds(8), {1, 2}, 2);
  job->on_message(kAgain, Heartbeat{}, now());
  EXPECT_TRUE(sent<Yield>().empty());
  time += seconds(2);
  job->on_message(kAgain, Heartbeat{}, now());
  beat(1, 2);
  beat(2, 2);
  EXPECT_EQ(sent<Yield>().size(), 2U);
  yielded(1, 0, 2);
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

// DESIGN 6.10: voluntary changes are agreed in band.
TEST_F(CoordinatorElasticTest, a_newcomer_that_has_gone_again_before_the_step_ended_is_not_waited_for) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  job->on_disconnected(kAgain, now());
  silence_until(seconds(2), {1, 2}, 2);
  yielded(1, 0, 2);
  yielded(2, 1, 2);
  EXPECT_FALSE(job->view()->failure) << "nothing has failed";
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 2U);
  EXPECT_EQ(proposals[0].world_size, 2);
}

TEST_F(CoordinatorElasticTest, a_member_that_reconnects_is_asked_again_to_end_the_step) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  forget();
  job->on_disconnected(kFirst + 1, now());
  come_back(1, MemberPhase::kRunning, 2);
  EXPECT_EQ(sent<Yield>().size(), 1U);
}

TEST_F(CoordinatorElasticTest, a_rank_that_dies_before_the_step_ended_is_a_failure_as_ever) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  say(2, exit(1, 2, 137, 9));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->cause, "ProcessSignal");
}

TEST_F(CoordinatorElasticTest, a_step_that_does_not_end_is_interrupted_after_a_minute) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  const MonotonicTime asked = time;
  while (phase() == Phase::kUp && time < asked + seconds(90)) {
    time += milliseconds(250);
    job->on_message(kAgain, Heartbeat{}, now());
    for (const int slot : {1, 2}) beat(slot, 2);
  }
  EXPECT_EQ(sent<Propose>().size(), 3U);
  EXPECT_GT(time - asked, seconds(60));
  EXPECT_LT(time - asked, seconds(61));
}

TEST_F(CoordinatorElasticTest, a_foreign_program_is_interrupted_because_it_cannot_be_asked) {
  plan.kind = Kind::kTorch;
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  EXPECT_TRUE(sent<Yield>().empty());
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

TEST_F(CoordinatorElasticTest, a_new_leader_to_whom_a_gang_says_that_it_yielded_goes_on) {
  run_two();
  pod_is_new(0);
  time += milliseconds(100);
  beat(1, 2, 8);
  plan.handled_generation = 1;
  another_leads();
  time += seconds(6);
  job->on_tick(now());
  for (const int slot : {1, 2}) come_back(slot, MemberPhase::kRunning, 2);
  EXPECT_TRUE(sent<Propose>().empty());
  yielded(1, 0, 2);
  EXPECT_EQ(sent<Propose>().size(), 2U);
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

// DESIGN 6.2: a successor disjoint from the gang. Slots 0 and 1 may still train with slot 2, in generation 1, while the
// record tells of a generation 2 of slots 0 and 2 that perhaps never began.
TEST_F(CoordinatorElasticTest, a_new_leader_leaves_nobody_out_before_it_knows_which_generation_is_in_force) {
  plan.min_slots = 1;
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
  plan.min_slots = 1;
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

TEST_F(CoordinatorElasticTest, a_new_leader_to_whom_a_member_of_the_records_generation_speaks_may_leave_others_out) {
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
