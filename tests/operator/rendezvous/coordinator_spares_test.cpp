// The coordinator's machine of a gang with spares: members that are held ready, and take the place of lost ones.
#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Two slots and a spare.
class CoordinatorSparesTest : public CoordinatorStateTest {
 protected:
  CoordinatorSparesTest() {
    plan.spares = 1;
    plan.members.push_back({2, 1, "a-2", "u2", "n2"});
  }
  void up(const std::vector<int>& slots, std::int64_t generation) {
    for (const int slot : slots) ready(slot, generation);
    for (const int slot : slots) {
      say(slot, Up{generation});
      beat(slot, generation);
    }
  }
  void idle(int slot) { say(slot, Heartbeat{}); }
  void run_two_of_three() {
    set_plan();
    loaded();
    join(0);
    join(1);
    written();
    up({0, 1}, 1);
    join(2);
    time += seconds(6);  // past the time without evictions
    beat(0, 1, 5);
    beat(1, 1);
    idle(2);
    forget();
  }
  void pod_is_gone(int slot, std::int64_t generation) {
    std::erase_if(plan.members, [&](const auto& member) { return member.slot == slot; });
    plan.handled_generation = generation;
    set_plan();
  }
  std::vector<int> members() const {
    std::vector<int> slots;
    for (const auto& member : stored.record.members) slots.push_back(member.slot);
    return slots;
  }
};

TEST_F(CoordinatorSparesTest, a_spare_is_held_without_a_rank) {
  run_two_of_three();
  for (int i = 0; i < 20; ++i) {
    time += milliseconds(250);
    beat(0, 1, 10 + i);
    beat(1, 1);
    idle(2);
  }
  EXPECT_TRUE(taken<SendToMember>().empty());
  EXPECT_EQ(phase(), Phase::kUp);
  EXPECT_EQ(job->view()->world_size, 2);
  EXPECT_FALSE(job->view()->members[2].in_gang);
  EXPECT_TRUE(job->view()->members[2].connected);
}

TEST_F(CoordinatorSparesTest, when_all_are_there_the_lowest_slots_begin) {
  set_plan();
  loaded();
  join(2);
  join(0);
  written();
  EXPECT_EQ(members(), (std::vector<int>{0, 2})) << "two are enough";
}

TEST_F(CoordinatorSparesTest, it_takes_the_place_of_a_lost_one_at_once) {
  run_two_of_three();
  pod_is_gone(0, 1);
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 2U);
  EXPECT_EQ(proposals[0].world_size, 2);
  EXPECT_EQ(proposals[1].first_rank, 1);
  written();
  EXPECT_EQ(members(), (std::vector<int>{1, 2}));
  up({1, 2}, 2);
  EXPECT_EQ(phase(), Phase::kUp);
}

TEST_F(CoordinatorSparesTest, a_silent_one_is_left_behind_once_another_is_ready) {
  run_two_of_three();
  for (int i = 0; i < 17; ++i) {
    time += milliseconds(250);
    beat(0, 1);
    idle(2);
  }
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->slot, 1);
  plan.handled_generation = 1;
  set_plan();
  written();
  EXPECT_EQ(members(), (std::vector<int>{0, 2}));
  ready(2, 2);
  EXPECT_TRUE(sent<Go>().empty()) << "the silent one may be at work with slot 0";
  ready(0, 2);
  EXPECT_EQ(sent<Go>().size(), 2U);
}

TEST_F(CoordinatorSparesTest, of_a_foreign_program_one_that_is_not_known_to_be_gone_is_waited_for) {
  plan.kind = Kind::kTorch;
  run_two_of_three();
  for (int i = 0; i < 17; ++i) {
    time += milliseconds(250);
    beat(0, 1);
    idle(2);
  }
  ASSERT_EQ(phase(), Phase::kBroken);
  plan.handled_generation = 1;
  set_plan();
  EXPECT_TRUE(sent<Propose>().empty());
  pod_is_gone(1, 1);
  EXPECT_EQ(sent<Propose>().size(), 2U) << "and needs no new pod";
}

TEST_F(CoordinatorSparesTest, a_process_that_died_is_started_again_where_it_was) {
  run_two_of_three();
  say(1, exit(1, 1, 139, 11));
  plan.handled_generation = 1;
  set_plan();
  written();
  EXPECT_EQ(members(), (std::vector<int>{0, 1}));
}

TEST_F(CoordinatorSparesTest, one_of_the_gang_whose_connection_just_broke_is_waited_for) {
  run_two_of_three();
  job->on_disconnected(kFirst + 1, now());
  say(0, exit(0, 1, 139, 11));
  plan.handled_generation = 1;
  set_plan();
  EXPECT_TRUE(sent<Propose>().empty());
  for (int i = 0; i < 5; ++i) {
    time += milliseconds(250);
    for (const int slot : {0, 2}) idle(slot);
  }
  written();
  EXPECT_EQ(members(), (std::vector<int>{0, 2}));
}

TEST_F(CoordinatorSparesTest, the_replacement_of_a_lost_one_is_the_next_spare) {
  run_two_of_three();
  pod_is_gone(0, 1);
  written();
  up({1, 2}, 2);
  forget();
  plan.members.push_back({0, 2, "a-0-2", "v0", "n9"});
  set_plan();
  job->on_hello(kFirst + 50, hello(0), now());
  time += seconds(1);
  beat(1, 2, 9);
  EXPECT_TRUE(sent<Propose>().empty());
  EXPECT_TRUE(sent<Yield>().empty());
  pod_is_gone(1, 2);
  written();
  EXPECT_EQ(members(), (std::vector<int>{0, 2}));
}

TEST_F(CoordinatorSparesTest, the_loss_of_a_spare_ends_nothing) {
  run_two_of_three();
  job->on_disconnected(kFirst + 2, now());
  for (int i = 0; i < 20; ++i) {
    time += milliseconds(250);
    beat(0, 1, 10 + i);
    beat(1, 1);
  }
  EXPECT_EQ(phase(), Phase::kUp);
}

TEST_F(CoordinatorSparesTest, an_elastic_gang_that_lost_one_is_whole_again_by_its_spare) {
  plan.elastic.min_slots = 1;
  plan.elastic.stabilization_seconds = 10;
  run_two_of_three();
  pod_is_gone(1, 1);
  written();
  EXPECT_EQ(members(), (std::vector<int>{0, 2}));
}

TEST_F(CoordinatorSparesTest, a_gang_that_is_to_be_smaller_gives_up_a_member_which_is_a_spare_then) {
  run_two_of_three();
  plan.slots = 1;
  plan.spares = 2;
  set_plan();
  EXPECT_EQ(sent<Yield>().size(), 2U);
  EXPECT_EQ(job->view()->message, "the gang will be smaller after this step");
  say(0, Broken{0, {1, -1, "the gang changes", true}});
  written();
  EXPECT_EQ(members(), (std::vector<int>{0}));
  up({0}, 2);
  beat(1, 1);
  EXPECT_EQ(sent<Halt>().size(), 1U) << "its processes are not needed any more";
}

TEST_F(CoordinatorSparesTest, a_new_leader_waits_for_the_gang_before_it_turns_to_a_spare) {
  run_two_of_three();
  another_leads();
  come_back(0, MemberPhase::kRunning);
  join(2);
  time += seconds(2);
  idle(2);
  EXPECT_TRUE(sent<Propose>().empty());
  come_back(1, MemberPhase::kRunning);
  EXPECT_EQ(phase(), Phase::kUp);
}

// The record may be of a generation that never began: its members promise, and what is too much is given up later.
TEST_F(CoordinatorSparesTest, a_new_leader_asks_every_recorded_member_for_its_promise) {
  stored.record.term = 1;
  stored.record.generation = 2;
  stored.record.members = {{1, 1, 1}, {2, 1, 1}};
  stored.version = "7";
  plan.slots = 1;
  plan.spares = 2;
  another_leads();
  for (const int slot : {0, 1, 2}) {
    Hello message = hello(slot);
    message.phase = slot == 0 ? MemberPhase::kExited : MemberPhase::kReady;
    message.generation = 1;
    message.promised = {1, slot == 0 ? 1 : 2};
    job->on_hello(kFirst + static_cast<SessionId>(slot), message, now());
  }
  written();
  EXPECT_EQ(members(), (std::vector<int>{1, 2}));
}

TEST_F(CoordinatorSparesTest, a_member_asked_and_then_left_out_is_told_to_end_its_processes) {
  run_two_of_three();
  say(1, exit(1, 1, 139, 11));
  ready(0, 2);
  job->on_disconnected(kFirst, now());
  plan.handled_generation = 1;
  set_plan();
  for (int i = 0; i < 5; ++i) {
    time += milliseconds(250);
    for (const int slot : {1, 2}) idle(slot);
  }
  written();
  EXPECT_EQ(members(), (std::vector<int>{1, 2}));
  pod_is_gone(7, 1);
  up({1, 2}, 3);
  forget();
  come_back(0, MemberPhase::kReady, 1, kFirst + 100);
  EXPECT_EQ(sent<Halt>().size(), 1U);
}

TEST_F(CoordinatorSparesTest, spares_leave_with_the_others_when_the_job_is_done) {
  run_two_of_three();
  for (const int slot : {0, 1}) say(slot, exit(slot, 1, 0));
  written();
  EXPECT_EQ(sent<Done>().size(), 3U);
}

}  // namespace
}  // namespace lockstep::rendezvous
