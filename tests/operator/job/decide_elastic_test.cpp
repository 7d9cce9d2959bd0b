// Decisions on a job that may run with fewer pods: what ends a generation, what does not, and what is recreated.
#include <gtest/gtest.h>

#include "operator/job/restart_policy.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_elastic_test {
namespace {

using namespace std::chrono_literals;
using rendezvous::Phase;

// Three pods, of which two are enough.
struct Elastic : Situation {
  Elastic() : Situation(3) {
    job.spec.elastic = api::ElasticSpec{.min_nodes = 2, .stabilization_seconds = 5};
    running();
  }
  rendezvous::MemberView& member(size_t slot) { return view->members.at(slot); }
  // Generation 2 runs without slot 2, whose agent fell silent and whose attempt is stored.
  Elastic& shrunk() {
    broken(1, api::Cause::kMemberLost, 2).time = now;
    member(2).connected = false;
    accept();
    see(Phase::kUp, 2);
    view->world_size = 2;
    member(2).in_gang = member(2).up = false;
    accept();
    return *this;
  }
  // The generations [first, last) end one after the other, each with an attempt.
  void break_links(std::int64_t first, std::int64_t last) {
    for (std::int64_t generation = first; generation < last; ++generation) {
      broken(generation, api::Cause::kConnectionBroken, 0);
      accept();
      see(Phase::kUp, generation + 1);
      accept();
    }
  }
};

TEST(DecideElastic, the_coordinator_is_told_how_few_are_enough) {
  Elastic s;
  const Plan plan = s.plan();
  EXPECT_EQ(plan.coordinator->slots, 3);
  EXPECT_EQ(plan.coordinator->elastic.min_slots, 2);
  EXPECT_EQ(plan.coordinator->elastic.stabilization_seconds, 5);
  EXPECT_EQ(s.job.status.nodes.min, 2);
  Situation fixed(3);
  fixed.running();
  EXPECT_EQ(fixed.plan().coordinator->elastic.min_slots, 0);
  EXPECT_EQ(fixed.job.status.nodes.min, 3);
}

TEST(DecideElastic, when_a_member_falls_silent_the_others_go_on_without_word_of_its_pod) {
  Elastic s;
  s.broken(1, api::Cause::kMemberLost, 2).time = s.now;
  s.member(2).connected = false;
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kMemberLost);
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kShrink);
  EXPECT_FALSE(s.job.status.attempts[0].counted);
  EXPECT_EQ(plan.coordinator->handled_generation, 1);
  EXPECT_EQ(plan.coordinator->members.size(), 3u) << "it may come back";
  EXPECT_TRUE(plan.creates.empty() && plan.deletes.empty());
}

TEST(DecideElastic, with_too_few_left_it_waits_for_word_as_a_fixed_gang_does) {
  Elastic s;
  s.broken(1, api::Cause::kMemberLost, 2).time = s.now;
  s.member(2).connected = s.member(1).connected = false;
  s.accept();
  EXPECT_TRUE(s.job.status.attempts.empty());
}

TEST(DecideElastic, a_smaller_gang_runs_and_says_how_many_ranks_it_has) {
  Elastic s;
  s.shrunk();
  EXPECT_TRUE(s.is("Running"));
  EXPECT_EQ(s.job.status.state, "Running");
  EXPECT_EQ(s.job.status.world_size, 2);
  EXPECT_EQ(s.condition("Running")->message, "generation 2 runs with 2 ranks");
}

TEST(DecideElastic, a_node_that_is_known_to_be_dead_later_costs_the_others_nothing) {
  Elastic s;
  s.shrunk();
  s.node(2, false);
  s.now += 7s;
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u) << "no second attempt for one loss";
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kNodeLost) << "what is known now";
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kShrink);
  EXPECT_EQ(s.job.status.restarts.total, 1);
  EXPECT_EQ(plan.coordinator->handled_generation, 1) << "generation 2 goes on";
  EXPECT_TRUE(s.is("Running"));
  EXPECT_EQ(s.job.status.incarnation, 2);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 2}}));
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, "NodeLost");
  EXPECT_EQ(plan.coordinator->members.size(), 2u);
  EXPECT_EQ(s.plan().coordinator->handled_generation, 1);
  EXPECT_FALSE(s.plan().status) << "said once";
}

TEST(DecideElastic, word_of_a_silent_pod_counts_when_others_are_of_a_newer_round_as_well) {
  Elastic s;
  s.shrunk();
  s.job.status.incarnation = 4;
  s.pods[2].phase = "Failed";
  const Plan plan = s.accept();
  EXPECT_EQ(s.job.status.attempts.at(0).cause, api::Cause::kPodFailed);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 5}}));
}

TEST(DecideElastic, a_pod_failure_seen_before_the_regroup_belongs_to_its_attempt) {
  Elastic s;
  s.broken(1, api::Cause::kMemberLost, 2).time = s.now;
  s.member(2).connected = false;
  s.accept();
  s.see(Phase::kProposing, 2);
  for (auto& member : s.view->members) member.in_gang = false;
  s.pods[2].phase = "Failed";
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPodFailed);
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kShrink);
  EXPECT_TRUE(s.job.status.attempts[0].counted);
  EXPECT_EQ(s.job.status.restarts.total, 1);
  EXPECT_EQ(s.job.status.restarts.counted, 1);
  EXPECT_EQ(plan.coordinator->handled_generation, 1);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 2}}));
}

TEST(DecideElastic, a_pod_failure_seen_before_the_coordinator_belongs_to_its_attempt) {
  Elastic s;
  s.broken(1, api::Cause::kMemberLost, 2).time = s.now;
  s.member(2).connected = false;
  s.accept();
  ASSERT_TRUE(s.member(2).in_gang) << "the view is as old as the attempt";
  s.pods[2].phase = "Failed";
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPodFailed);
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kShrink);
  EXPECT_EQ(s.job.status.restarts.total, 1);
}

TEST(DecideElastic, a_silent_pod_that_vanishes_is_the_same_attempt) {
  Elastic s;
  s.shrunk();
  s.pods.pop_back();
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPodDeleted);
  EXPECT_EQ(s.job.status.attempts[0].pod, "a-abcd-2-1");
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 2}}));
  s.accept();
  EXPECT_EQ(s.job.status.attempts.size(), 1u);
}

// Its successor has the same name where no round of pods begins.
TEST(DecideElastic, a_silent_pod_that_vanishes_while_pods_are_missing_leaves_no_trace) {
  Elastic s;
  s.job.spec.nodes = 4;
  s.accept();
  s.shrunk();
  s.now += std::chrono::seconds(61);
  s.pods.pop_back();
  s.accept();
  s.pod(2);
  EXPECT_TRUE(s.accept().deletes.empty());
}

TEST(DecideElastic, a_pod_that_was_silent_once_and_came_back_fails_as_any_other_does) {
  Elastic s;
  s.shrunk();
  s.see(Phase::kUp, 3);
  s.connect();
  s.member(2).in_gang = s.member(2).up = true;
  s.accept();
  s.pods[2].phase = "Failed";
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 2u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kMemberLost);
  EXPECT_EQ(s.job.status.attempts[1].cause, api::Cause::kPodFailed);
  EXPECT_EQ(s.job.status.attempts[1].generation, 3);
}

TEST(DecideElastic, word_of_a_pod_that_was_silent_twice_belongs_to_its_last_silence) {
  Elastic s;
  s.shrunk();
  s.see(Phase::kUp, 3);
  s.connect();
  s.member(2).in_gang = s.member(2).up = true;
  s.accept();
  s.broken(3, api::Cause::kMemberLost, 2).time = s.now;
  s.member(2).connected = false;
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 2u);
  s.pods[2].phase = "Failed";
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 2u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kMemberLost);
  EXPECT_EQ(s.job.status.attempts[1].cause, api::Cause::kPodFailed);
}

TEST(DecideElastic, word_of_a_silent_pod_that_ends_the_job_belongs_to_the_same_attempt_too) {
  Elastic s;
  s.shrunk();
  s.job.spec.restart.max_restarts = 0;
  s.pods[2].phase = "Failed";
  s.accept();
  EXPECT_EQ(s.job.status.state, "Failed");
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPodFailed);
  EXPECT_EQ(s.job.status.attempts[0].decision, "restart.maxRestarts is 0");
}

TEST(DecideElastic, a_pod_that_is_deleted_is_replaced_while_the_others_train) {
  Elastic s;
  s.pods[2].meta.deleted = s.now;
  Plan plan = s.accept();
  EXPECT_EQ(s.job.status.attempts.at(0).cause, api::Cause::kPodDeleted);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 2}}));
  s.pods.pop_back();
  s.see(Phase::kUp, 2);
  s.view->world_size = 2;
  s.view->members.pop_back();
  s.accept();
  EXPECT_TRUE(s.is("Running"));
  s.pod(2, 2, "Pending").node_name.clear();
  s.connect();
  s.member(2).in_gang = s.member(2).connected = s.member(2).up = false;
  plan = s.accept();
  EXPECT_EQ(plan.coordinator->handled_generation, 1);
  EXPECT_EQ(plan.coordinator->members.size(), 3u);
  EXPECT_EQ(s.job.status.attempts.size(), 1u);
  // The replacement goes too, before it was taken in.
  s.pods[2].meta.deleted = s.now;
  plan = s.accept();
  EXPECT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.incarnation, 3);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 3}}));
  EXPECT_EQ(plan.coordinator->handled_generation, 1);
}

TEST(DecideElastic, a_replacement_that_fails_repeatedly_is_counted_and_backs_off) {
  Elastic s;
  s.job.spec.restart.max_restarts = 2;
  s.shrunk();
  for (int round = 1; round <= 2; ++round) {
    s.pods[2].phase = "Failed";
    EXPECT_EQ(s.accept().creates.empty(), round == 2) << "the first at once, the second after a pause";
    ASSERT_EQ(s.job.status.attempts.size(), static_cast<size_t>(round)) << "the first is of the silence";
    EXPECT_EQ(s.job.status.attempts.back().cause, api::Cause::kPodFailed);
    EXPECT_EQ(s.job.status.attempts.back().generation, 1);
    EXPECT_TRUE(s.job.status.attempts.back().counted);
    EXPECT_TRUE(s.is("Running"));
    s.now += 2min;
    const Plan plan = s.accept();
    EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 1 + round}}));
    s.pods.pop_back();
    s.pod(2, 1 + round);
    s.connect();
    s.member(2).in_gang = s.member(2).up = false;
    s.accept();
  }
  s.pods[2].phase = "Failed";
  s.accept();
  EXPECT_TRUE(s.is("Failed"));
  EXPECT_EQ(s.reason("Failed"), "RestartBudgetExceeded");
}

TEST(DecideElastic, a_pod_that_was_left_behind_and_stays_silent_is_recreated) {
  Elastic s;
  s.shrunk();
  s.now += 59s;
  EXPECT_TRUE(s.accept().deletes.empty());
  Elastic back = s;
  back.member(2).connected = true;
  back.now += 1s;
  EXPECT_TRUE(back.accept().deletes.empty());
  s.now += 1s;
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-2-1");
}

TEST(DecideElastic, a_silent_pod_is_replaced_however_many_attempts_follow) {
  Elastic s;
  s.shrunk();
  s.break_links(2, 14);
  s.now += 60s;
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-2-1");
}

TEST(DecideElastic, the_attempts_of_an_earlier_version_tell_of_a_silence) {
  Elastic s;
  s.shrunk();
  ASSERT_EQ(s.job.status.slots->size(), 1u);
  const auto stored = s.job.status.slots;
  s.job.status.slots.reset();  // as an operator leaves it that does not know the field
  s.now += 59s;
  EXPECT_FALSE(s.plan().status) << "nothing has changed, and a schema without the field would drop it again";
  s.now += 1s;
  ASSERT_EQ(s.plan().deletes.size(), 1u);
  EXPECT_EQ(s.plan().deletes[0].name, "a-abcd-2-1");
  s.broken(2, api::Cause::kConnectionBroken, 0);
  s.accept();
  EXPECT_EQ(s.job.status.slots, stored) << "stored with the next write";
}

TEST(DecideElastic, a_left_behind_pod_has_its_time_again_when_the_clock_is_set_back) {
  Elastic s;
  s.shrunk();
  s.now -= 1h;
  EXPECT_TRUE(s.accept().deletes.empty());
  s.now += 59s;
  EXPECT_TRUE(s.accept().deletes.empty());
  s.now += 1s;
  EXPECT_EQ(s.accept().deletes.size(), 1u) << "and no hour more";
}

TEST(DecideElastic, a_silence_is_over_when_the_pod_is_back_in_the_gang) {
  Elastic s;
  s.shrunk();
  s.connect();
  s.see(Phase::kProposing, 3);
  s.accept();
  EXPECT_EQ(s.job.status.slots->size(), 1u) << "generation 3 may come to nothing";
  s.see(Phase::kUp, 3);
  s.accept();
  EXPECT_TRUE(s.job.status.slots->empty());
}

TEST(DecideElastic, the_trouble_of_a_pod_leaves_the_status_with_the_pod) {
  Elastic s;
  s.shrunk();
  s.pods[2].phase = "Failed";
  s.accept();
  s.pods.pop_back();
  s.accept();
  EXPECT_TRUE(s.job.status.slots->empty());
}

TEST(DecideElastic, what_a_silence_was_is_known_however_many_attempts_follow) {
  Elastic s;
  s.shrunk();
  s.break_links(2, 14);
  const int total = s.job.status.restarts.total;
  s.pods[2].phase = "Failed";
  s.accept();
  EXPECT_EQ(s.job.status.restarts.total, total) << "the silence was its one restart";
  EXPECT_EQ(s.job.status.restarts.counted, 1) << "which is charged, as it was the pod's own failure";
}

TEST(DecideElastic, a_failure_of_the_smaller_gang_is_its_own_attempt) {
  Elastic s;
  s.shrunk();
  s.broken(2, api::Cause::kProcessSignal, 1, 137).step = 8;
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 2u);
  EXPECT_EQ(s.job.status.attempts[1].generation, 2);
  EXPECT_EQ(s.job.status.attempts[1].strategy, api::Strategy::kInPlace);
  EXPECT_EQ(plan.coordinator->handled_generation, 2);
}

}  // namespace
}  // namespace lockstep::job::decide_elastic_test
