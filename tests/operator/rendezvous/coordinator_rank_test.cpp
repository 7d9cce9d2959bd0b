// Ranks that follow the nodes of the pods, and not their slots.
#include "tests/operator/rendezvous/coordinator_elastic_fixture.h"

namespace lockstep::rendezvous {
namespace {

// Slots 0 and 2 are in rack b, slot 1 is in rack a: their ranks are 1, 2 and 0.
class CoordinatorRankTest : public CoordinatorElasticTest {
 protected:
  CoordinatorRankTest() {
    plan.elastic.min_slots = 0;
    in_racks({"b", "a", "b"});
  }
  void in_racks(const std::vector<std::string>& racks) {
    for (ExpectedMember& member : plan.members) member.path = {racks[static_cast<std::size_t>(member.slot)]};
  }
  // The ranks of the newest PROPOSE to each slot.
  std::vector<int> proposed_ranks() {
    std::vector<int> ranks(3, -1);
    for (const auto& send : taken<SendToMember>()) {
      const auto* propose = std::get_if<Propose>(&send.message);
      if (propose != nullptr) ranks[slot_of(send.session)] = propose->first_rank;
    }
    return ranks;
  }
  static std::size_t slot_of(SessionId session) { return static_cast<std::size_t>((session - kFirst) % 50); }
  std::vector<int> recorded_slots() const {
    std::vector<int> slots;
    for (const Record::Member& member : stored.record.members) slots.push_back(member.slot);
    return slots;
  }
  std::vector<int> viewed_slots() {
    std::vector<int> slots;
    const std::vector<Place> places = job->view()->places;
    for (const Place& place : places) slots.push_back(place.slot);
    return slots;
  }
  // The rank 0 dies in slot 1, and the controller lets the same pods go on.
  void fail_rank_zero(std::int64_t generation) {
    for (const int slot : {0, 1, 2}) say(slot, stays(generation));
    say(1, exit(0, generation, 137, 9));
    handled(generation);
  }
};

using Slots = std::vector<int>;

TEST_F(CoordinatorRankTest, follow_the_racks_in_propose_record_go_and_view) {
  set_plan();
  loaded();
  for (const int slot : {0, 1, 2}) join(slot);
  EXPECT_EQ(proposed_ranks(), (std::vector<int>{1, 0, 2}));
  written();
  EXPECT_EQ(recorded_slots(), (Slots{1, 0, 2}));
  ready_of({0, 1, 2}, 1);
  for (const auto& send : taken<SendToMember>()) {
    const auto* go = std::get_if<Go>(&send.message);
    if (go == nullptr) continue;
    EXPECT_EQ(go->peers->slots(), (Slots{1, 0, 2}));
    EXPECT_EQ(go->peers->slots()[static_cast<std::size_t>(go->first_rank)], static_cast<int>(slot_of(send.session)));
    EXPECT_EQ(go->group_rank, go->first_rank);
    EXPECT_EQ(go->master_addr, "10.0.0.1") << "the pod of rank 0";
  }
  ASSERT_EQ(sent<Go>().size(), 3U);
  EXPECT_EQ(viewed_slots(), (Slots{1, 0, 2}));
  EXPECT_EQ(job->view()->first_rank_of(2), 2);
  EXPECT_EQ(job->view()->first_rank_of(1), 0);
  EXPECT_EQ(job->view()->first_rank_of(3), -1);
}

TEST_F(CoordinatorRankTest, of_an_exit_name_the_slot_that_has_the_rank) {
  run_three();
  say(0, exit(0, 1, 137, 9));
  EXPECT_EQ(phase(), Phase::kUp) << "slot 0 has rank 1, and cannot tell of rank 0";
  say(1, exit(0, 1, 137, 9));
  ASSERT_TRUE(job->view()->failure);
  EXPECT_EQ(job->view()->failure->slot, 1);
  EXPECT_EQ(job->view()->failure->rank, 0);
}

TEST_F(CoordinatorRankTest, of_a_broken_link_name_the_slots_that_have_them) {
  run_three();
  for (const int slot : {0, 1, 2}) say(slot, stays(1));
  say(0, Broken{0, {1, 2, "connection reset"}});
  EXPECT_EQ(phase(), Phase::kUp) << "slot 0 has rank 1";
  say(0, Broken{1, {1, 0, "connection reset"}});
  time += std::chrono::seconds(1);
  for (const int slot : {0, 1, 2}) say(slot, stays(1));
  ASSERT_TRUE(job->view()->failure);
  EXPECT_EQ(job->view()->failure->cause, api::Cause::kConnectionBroken);
  EXPECT_EQ(job->view()->failure->slot, 1) << "which has the suspected rank 0";
}

TEST_F(CoordinatorRankTest, change_with_the_next_proposal_and_never_cause_one) {
  run_three();
  in_racks({"a", "b", "a"});
  set_plan();
  time += std::chrono::seconds(20);
  for (const int slot : {0, 1, 2}) beat(slot, 1);
  collect();
  EXPECT_TRUE(seen.empty());
  EXPECT_EQ(viewed_slots(), (Slots{1, 0, 2}));
  in_racks({"a", "b", "b"});
  set_plan();
  EXPECT_TRUE(taken<SendToMember>().empty());
  fail_rank_zero(1);
  EXPECT_EQ(proposed_ranks(), (std::vector<int>{2, 0, 1})) << "rack b has the lowest surviving rank";
}

TEST_F(CoordinatorRankTest, stay_where_the_plan_changes_while_a_proposal_is_out) {
  set_plan();
  loaded();
  for (const int slot : {0, 1, 2}) join(slot);
  forget();
  in_racks({"a", "b", "b"});
  set_plan();
  collect();
  EXPECT_TRUE(sent<Propose>().empty());
}

TEST_F(CoordinatorRankTest, are_taken_over_as_they_are_recorded) {
  run_three();
  in_racks({"a", "b", "c"});  // of other nodes than those the generation was formed on
  another_leads();
  for (const int slot : {0, 1, 2}) come_back(slot, MemberPhase::kRunning);
  EXPECT_EQ(viewed_slots(), (Slots{1, 0, 2}));
  say(0, exit(0, 1, 137, 9));
  EXPECT_EQ(phase(), Phase::kUp);
  say(1, exit(0, 1, 137, 9));
  ASSERT_TRUE(job->view()->failure);
  EXPECT_EQ(job->view()->failure->slot, 1);
}

TEST_F(CoordinatorRankTest, of_survivors_stay_after_a_take_over_when_a_successor_comes_to_the_rack) {
  run_three();
  another_leads();
  for (const int slot : {0, 1, 2}) come_back(slot, MemberPhase::kRunning);
  forget();
  pod_is_gone(1);
  plan.members.push_back({1, 2, "a-1-2", "v1", "n9"});
  in_racks({"b", "a", "b"});
  set_plan();
  job->on_hello(kAgain + 1, hello(1), now());
  EXPECT_EQ(proposed_ranks(), (std::vector<int>{1, 0, 2}));
}

TEST_F(CoordinatorRankTest, follow_the_last_known_path_where_the_node_object_is_gone) {
  run_three();
  forget();
  pod_is_gone(1);
  plan.members.push_back({1, 2, "a-1-2", "v1", "n9"});
  for (ExpectedMember& member : plan.members) member.path = {"b"};
  for (ExpectedMember& member : plan.members) {
    if (member.slot == 0) member.path.clear();
  }
  set_plan();
  job->on_hello(kAgain + 1, hello(1), now());
  EXPECT_EQ(proposed_ranks(), (std::vector<int>{1, 0, 2})) << "all are in rack b";
}

}  // namespace
}  // namespace lockstep::rendezvous
