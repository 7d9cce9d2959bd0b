// The coordinator's machine while a user changes how many slots there are: members that are to leave, and new ones.
#include "tests/operator/rendezvous/coordinator_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Three slots, of which one is enough.
class CoordinatorScaleTest : public CoordinatorStateTest {
 protected:
  CoordinatorScaleTest() {
    plan.slots = 3;
    plan.elastic.min_slots = 1;
    plan.elastic.stabilization_seconds = 10;
    plan.members.push_back({2, 1, "a-2", "u2", "n2"});
  }
  void up(const std::vector<int>& slots, std::int64_t generation) {
    for (const int slot : slots) ready(slot, generation);
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
  // The user wants `slots` from now on, and those above are to leave.
  void scale_to(int slots) {
    plan.slots = slots;
    for (auto& member : plan.members) member.leaving = member.leaving || member.slot >= slots;
    set_plan();
  }
  Exit left(int rank, std::int64_t generation) {
    Exit made = exit(rank, generation, kExitStopped);
    made.reason = Exit::Reason::kTerminated;
    return made;
  }
  void pod_is_gone(int slot) {
    std::erase_if(plan.members, [&](const auto& member) { return member.slot == slot; });
    set_plan();
  }
  // The other two go on in generation 2, and nobody has failed.
  void expect_two_go_on() {
    const auto proposals = sent<Propose>();
    ASSERT_EQ(proposals.size(), 2U);
    EXPECT_EQ(proposals[0].id.generation, 2);
    EXPECT_EQ(proposals[0].world_size, 2);
    EXPECT_EQ(job->view()->failure, std::nullopt);
    written();
    up({0, 1}, 2);
    EXPECT_EQ(phase(), Phase::kUp);
    EXPECT_EQ(job->view()->world_size, 2);
  }
};

TEST_F(CoordinatorScaleTest, a_member_that_is_to_leave_stays_until_its_pod_knows) {
  run_three();
  scale_to(2);
  for (int i = 0; i < 20; ++i) {
    time += milliseconds(250);
    for (const int slot : {0, 1, 2}) beat(slot, 1, i);
  }
  EXPECT_EQ(phase(), Phase::kUp);
  EXPECT_TRUE(taken<SendToMember>().empty());
  EXPECT_TRUE(job->view()->members[2].leaving);
  EXPECT_TRUE(job->view()->members[2].in_gang);
}

TEST_F(CoordinatorScaleTest, when_it_has_left_the_others_go_on_at_once_and_nobody_has_failed) {
  run_three();
  scale_to(2);
  say(2, left(2, 1));
  expect_two_go_on();
}

TEST_F(CoordinatorScaleTest, others_may_notice_first_that_it_is_gone) {
  run_three();
  scale_to(2);
  say(0, Broken{0, {1, 2, "rank 2 went away"}});
  EXPECT_TRUE(sent<Propose>().empty()) << "it may be about to say so";
  time += milliseconds(200);
  job->on_tick(now());
  expect_two_go_on();
}

TEST_F(CoordinatorScaleTest, it_may_crash_on_its_way_out) {
  run_three();
  scale_to(2);
  say(2, exit(2, 1, 139, 11));
  expect_two_go_on();
}

TEST_F(CoordinatorScaleTest, it_may_fall_silent_on_its_way_out) {
  run_three();
  scale_to(2);
  job->on_disconnected(kFirst + 2, now());
  for (int i = 0; i < 5; ++i) {
    time += milliseconds(250);
    for (const int slot : {0, 1}) beat(slot, 1);
  }
  expect_two_go_on();
}

TEST_F(CoordinatorScaleTest, its_pod_may_be_gone_before_it_has_said_anything) {
  run_three();
  scale_to(2);
  pod_is_gone(2);
  expect_two_go_on();
}

TEST_F(CoordinatorScaleTest, a_failure_of_one_that_stays_is_a_failure) {
  run_three();
  scale_to(2);
  say(1, exit(1, 1, 139, 11));
  ASSERT_EQ(phase(), Phase::kBroken);
  EXPECT_EQ(job->view()->failure->slot, 1);
  say(2, left(2, 1));
  EXPECT_TRUE(taken<WriteRecord>().empty()) << "the controller has not dealt with it";
  plan.handled_generation = 1;
  set_plan();
  EXPECT_EQ(taken<WriteRecord>().size(), 1U);
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

TEST_F(CoordinatorScaleTest, several_that_leave_one_after_another_make_one_generation) {
  plan.slots = 4;
  plan.members.push_back({3, 1, "a-3", "u3", "n3"});
  set_plan();
  loaded();
  for (const int slot : {0, 1, 2, 3}) join(slot);
  written();
  up({0, 1, 2, 3}, 1);
  time += seconds(6);
  for (const int slot : {0, 1, 2, 3}) beat(slot, 1);
  forget();
  scale_to(2);
  say(3, left(3, 1));
  say(2, left(2, 1));
  expect_two_go_on();
  EXPECT_EQ(taken<WriteRecord>().size(), 1U);
}

TEST_F(CoordinatorScaleTest, one_that_is_to_leave_is_in_no_proposal) {
  set_plan();
  loaded();
  for (const int slot : {0, 1, 2}) join(slot);
  forget();
  scale_to(2);
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 2U);
  EXPECT_EQ(proposals[0].world_size, 2);
  EXPECT_EQ(proposals[0].id.generation, 2) << "the number of the first is not used again";
}

TEST_F(CoordinatorScaleTest, of_a_foreign_program_the_others_wait_until_its_pod_is_gone) {
  plan.kind = Kind::kTorch;
  run_three();
  scale_to(2);
  Exit ended = exit(2, 1, 143, 15);
  ended.reason = Exit::Reason::kTerminated;
  say(2, ended);
  written();
  for (const int slot : {0, 1}) ready(slot, 2);
  EXPECT_TRUE(sent<Go>().empty()) << "something that it started may be at work";
  pod_is_gone(2);
  EXPECT_EQ(sent<Go>().size(), 2U);
}

TEST_F(CoordinatorScaleTest, new_slots_are_taken_in_after_the_next_step) {
  run_three();
  plan.slots = 5;
  for (const int slot : {3, 4}) {
    plan.members.push_back({slot, 1, fmt::format("a-{}", slot), fmt::format("u{}", slot), "n"});
  }
  set_plan();
  join(3);
  join(4);
  EXPECT_TRUE(sent<Propose>().empty());
  time += milliseconds(100);
  beat(0, 1, 8);
  EXPECT_EQ(sent<Yield>().size(), 3U);
  say(0, Broken{0, {1, -1, "others join", true}});
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 5U);
  EXPECT_EQ(proposals[4].first_rank, 4);
  EXPECT_EQ(job->view()->failure, std::nullopt);
}

// Down and up again before the pod of before has gone: the new one has to wait for its place.
TEST_F(CoordinatorScaleTest, a_slot_that_is_wanted_again_is_given_away_when_it_is_free) {
  run_three();
  scale_to(2);
  scale_to(3);
  const auto old = hello(2);
  plan.members[2] = {2, 2, "a-2-2", "v2", "n2"};
  Hello newcomer = hello(2);
  plan.members[2] = {2, 1, "a-2", "u2", "n2", true};
  set_plan();
  job->on_hello(kFirst + 50, newcomer, now());
  ASSERT_EQ(sent<Refused>().size(), 1U);
  EXPECT_FALSE(sent<Refused>()[0].final);
  say(2, left(2, 1));
  expect_two_go_on();
  plan.members[2] = {2, 2, "a-2-2", "v2", "n2"};
  set_plan();
  job->on_hello(kFirst + 51, newcomer, now());
  forget();
  time += milliseconds(100);
  beat(0, 2, 9);
  say(0, Broken{0, {2, -1, "others join", true}});
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

TEST_F(CoordinatorScaleTest, growth_waits_for_those_that_are_leaving) {
  run_three();
  scale_to(2);
  plan.slots = 4;
  plan.members.push_back({3, 2, "a-3-2", "u3", "n3"});
  set_plan();
  join(3);
  time += seconds(11);
  for (const int slot : {0, 1, 2, 3}) beat(slot, 1, 9);
  EXPECT_TRUE(sent<Propose>().empty());
  EXPECT_EQ(phase(), Phase::kUp);
  say(2, left(2, 1));
  EXPECT_EQ(sent<Propose>().size(), 3U);
}

TEST_F(CoordinatorScaleTest, a_new_leader_goes_on_with_a_release_that_is_under_way) {
  run_three();
  job = make(2);
  scale_to(2);
  loaded();
  written();
  for (const int slot : {0, 1, 2}) come_back(slot, MemberPhase::kRunning);
  EXPECT_EQ(phase(), Phase::kUp);
  time += seconds(6);
  for (const int slot : {0, 1, 2}) beat(slot, 1);
  forget();
  say(2, left(2, 1));
  EXPECT_EQ(sent<Propose>().size(), 2U);
  EXPECT_EQ(job->view()->failure, std::nullopt);
}

TEST_F(CoordinatorScaleTest, a_new_leader_that_finds_the_pod_gone_goes_on_with_the_others) {
  run_three();
  job = make(2);
  scale_to(2);
  std::erase_if(plan.members, [](const auto& member) { return member.slot == 2; });
  set_plan();
  loaded();
  written();
  for (const int slot : {0, 1}) come_back(slot, MemberPhase::kRunning);
  EXPECT_EQ(sent<Propose>().size(), 2U);
}

TEST_F(CoordinatorScaleTest, all_that_end_with_zero_have_succeeded_even_those_that_were_to_leave) {
  run_three();
  scale_to(2);
  for (const int slot : {0, 1, 2}) say(slot, exit(slot, 1, 0));
  EXPECT_EQ(phase(), Phase::kFinished);
}

}  // namespace
}  // namespace lockstep::rendezvous
