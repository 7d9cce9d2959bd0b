// Decisions on a job with spares.
#include <gtest/gtest.h>

#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_spares_test {
namespace {

using namespace std::chrono_literals;
using rendezvous::Phase;

// Two pods that train and one that is held ready.
struct WithSpare : Situation {
  WithSpare() : Situation(2) {
    job.spec.spares = 1;
    see(Phase::kWaiting, 0);
    accept();
    for (int slot = 0; slot < 3; ++slot) pod(slot);
    see(Phase::kUp, 1).world_size = 2;
    connect();
    gang({0, 1});
    accept();
  }
  void gang(const std::vector<int>& slots) {
    for (auto& member : view->members) {
      member.in_gang = member.up = std::find(slots.begin(), slots.end(), member.slot) != slots.end();
    }
  }
  bool no_failure() const { return job.status.attempts.empty() && job.status.restarts.total == 0 && is("Running"); }
};

TEST(DecideSpares, there_is_a_pod_for_each_and_the_coordinator_expects_it) {
  Situation s(2);
  s.job.spec.spares = 2;
  s.see(Phase::kWaiting, 0);
  EXPECT_EQ(s.accept().creates.size(), 4u);
  for (int slot = 0; slot < 4; ++slot) s.pod(slot);
  const Plan plan = s.accept();
  EXPECT_EQ(plan.coordinator->slots, 2);
  EXPECT_EQ(plan.coordinator->spares, 2);
  EXPECT_EQ(plan.coordinator->members.size(), 4u);
}

// With slot 2 in the gang, its pod is no spare, whatever its number.
TEST(DecideSpares, a_spare_lost_without_leader_is_recreated_once_its_loss_is_known) {
  WithSpare s;
  s.gang({0, 2});
  s.accept();
  const auto view = s.view;
  s.view.reset();
  s.pods.erase(s.pods.begin() + 2);
  EXPECT_TRUE(s.accept().creates.empty());
  s.view = view;
  EXPECT_EQ(s.accept().creates.size(), 1u);
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPodDeleted);
}

TEST(DecideSpares, a_silent_pod_that_is_deleted_is_no_placed_pod_of_the_gang) {
  WithSpare s;
  s.broken(1, api::Cause::kMemberLost, 1).time = s.now - 61s;  // and its cause stays unknown
  s.pods[2].meta.deleted = s.now + 30s;
  s.view->members[1].connected = s.view->members[2].connected = false;
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].name, s.pods[1].meta.name);
  EXPECT_FALSE(s.is("Placed")) << s.reason("Placed");
}

TEST(DecideSpares, a_spare_without_a_node_delays_no_condition) {
  Situation s(2);
  s.job.spec.spares = 1;
  s.see(Phase::kWaiting, 0);
  s.accept();
  for (int slot = 0; slot < 2; ++slot) s.pod(slot);
  s.accept();
  EXPECT_TRUE(s.is("Placed"));
  EXPECT_EQ(s.reason("Placed"), "GangPlaced");
  s.see(Phase::kUp, 1);
  s.connect();
  EXPECT_EQ(s.accept().creates.size(), 1U) << "the spare, which never was there, is no loss";
  EXPECT_TRUE(s.is("Running"));
  EXPECT_EQ(s.job.status.incarnation, 1);
  s.pod(2);
  s.accept();
  EXPECT_EQ(s.reason("Placed"), "AllPodsPlaced");
  s.pods.pop_back();
  s.accept();
  EXPECT_EQ(s.job.status.incarnation, 2) << "a spare that was there is replaced in a round of its own";
  EXPECT_TRUE(s.is("Placed")) << "by " << s.reason("Placed");
  EXPECT_EQ(s.job.status.restarts.total, 0);
}

TEST(DecideSpares, too_few_pods_for_the_gang_are_not_placed_though_a_spare_is) {
  Situation s(2);
  s.job.spec.spares = 1;
  s.see(Phase::kWaiting, 0);
  s.accept();
  s.pod(2);
  s.accept();
  EXPECT_FALSE(s.is("Placed"));
  s.pod(1);
  s.accept();
  EXPECT_TRUE(s.is("Placed")) << "a spare can take a place in the gang";
}

TEST(DecideSpares, a_slot_whose_pod_was_never_created_is_no_loss) {
  WithSpare s;
  s.pods[0].meta.deleted = s.now;
  s.accept();
  ASSERT_EQ(s.job.status.restarts.total, 1);
  s.pods.erase(s.pods.begin());
  s.gang({2, 1});
  s.view->members.erase(s.view->members.begin());
  s.see(Phase::kUp, 2);
  s.now += 2s;
  s.accept();
  EXPECT_EQ(s.reason("Placed"), "GangPlaced") << "the spare stands in, and its successor has no node";
  s.see(Phase::kWaiting, 2);
  for (auto& member : s.view->members) member.in_gang = member.up = false;
  s.accept();
  EXPECT_EQ(s.job.status.restarts.total, 1);
  EXPECT_EQ(s.job.status.incarnation, 2);
}

TEST(DecideSpares, a_spare_is_not_ready_but_spare) {
  WithSpare s;
  EXPECT_EQ(s.job.status.nodes.ready, 2);
  EXPECT_EQ(s.job.status.nodes.desired, 2);
  EXPECT_EQ(s.job.status.nodes.min, 2);
  EXPECT_EQ(s.job.status.nodes.spare, 1);
  EXPECT_EQ(s.job.status.nodes.summary, "2/2");
  EXPECT_EQ(s.job.status.world_size, 2);
  Situation none(2);
  none.running();
  EXPECT_EQ(none.job.status.nodes.spare, std::nullopt);
}

TEST(DecideSpares, one_that_has_not_connected_is_none_yet) {
  WithSpare s;
  s.view->members[2].connected = false;
  s.now += 2s;
  s.accept();
  EXPECT_EQ(s.job.status.nodes.spare, 0);
}

TEST(DecideSpares, a_lost_pod_is_recorded_and_recreated_and_the_spare_is_no_longer_one) {
  WithSpare s;
  s.pods[1].meta.deleted = s.now;
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPodDeleted);
  EXPECT_EQ(plan.coordinator->handled_generation, 1);
  EXPECT_EQ(plan.coordinator->members.size(), 2u);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{1, 2}}));
  s.pods.erase(s.pods.begin() + 1);
  s.see(Phase::kUp, 2);
  s.connect();
  s.now += 2s;
  s.accept();
  EXPECT_TRUE(s.is("Running"));
  EXPECT_EQ(s.job.status.nodes.summary, "2/2");
  EXPECT_EQ(s.job.status.nodes.spare, 0);
  s.pod(1, 2);
  s.connect();
  s.gang({0, 2});
  s.now += 2s;
  s.accept();
  EXPECT_EQ(s.job.status.nodes.spare, 1) << "the replacement";
  EXPECT_EQ(s.job.status.nodes.summary, "2/2");
  EXPECT_EQ(s.job.status.restarts.total, 1);
}

TEST(DecideSpares, a_silent_member_need_not_be_explained_while_a_spare_can_take_its_place) {
  WithSpare s;
  s.broken(1, api::Cause::kMemberLost, 1).time = s.now;
  s.view->members[1].connected = false;
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kShrink);
  EXPECT_EQ(plan.coordinator->handled_generation, 1);
  WithSpare without;
  without.broken(1, api::Cause::kMemberLost, 1).time = without.now;
  without.view->members[1].connected = without.view->members[2].connected = false;
  without.accept();
  EXPECT_TRUE(without.job.status.attempts.empty());
}

TEST(DecideSpares, the_death_of_a_spare_is_no_restart) {
  WithSpare s;
  s.pods[2].meta.deleted = s.now;
  Plan plan = s.accept();
  EXPECT_TRUE(s.no_failure());
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 2}}));
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].action, "Replace");
  EXPECT_EQ(plan.coordinator->handled_generation, 0);
}

TEST(DecideSpares, one_that_is_gone_without_a_word_is_not_made_under_the_same_name) {
  WithSpare s;
  s.pods.pop_back();
  EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{2, 2}}));
  EXPECT_TRUE(s.no_failure());
}

TEST(DecideSpares, a_spare_lost_while_the_gang_breaks_gets_a_new_name) {
  WithSpare s;
  s.pods.pop_back();
  s.broken(1, api::Cause::kProcessSignal, 0, 137);
  EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{2, 2}}));
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kInPlace);
}

TEST(DecideSpares, before_the_first_generation_its_death_is_none_either) {
  Situation s(2);
  s.job.spec.spares = 1;
  s.see(Phase::kWaiting, 0);
  s.accept();
  for (int slot = 0; slot < 3; ++slot) s.pod(slot);
  s.accept();
  s.pods[2].meta.deleted = s.now;
  s.accept();
  EXPECT_TRUE(s.job.status.attempts.empty());
  EXPECT_EQ(s.job.status.restarts.total, 0);
}

TEST(DecideSpares, a_spare_that_fails_repeatedly_backs_off_and_ends_nothing) {
  WithSpare s;
  s.job.spec.restart.max_restarts = 0;
  for (int round = 1; round <= 3; ++round) {
    s.pods[2].meta.created = s.now;
    s.pods[2].phase = "Failed";
    EXPECT_TRUE(s.accept().creates.empty());
    s.now += 9s;
    EXPECT_TRUE(s.accept().creates.empty());
    s.now += 1s;
    EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{2, 1 + round}}));
    EXPECT_TRUE(s.no_failure());
    s.pods.pop_back();
    s.pod(2, 1 + round);
    s.connect();
    s.gang({0, 1});
  }
}

TEST(DecideSpares, a_spare_that_cannot_be_placed_does_not_hold_the_gang_up) {
  Situation s(2);
  s.job.spec.spares = 1;
  s.see(Phase::kWaiting, 0);
  s.accept();
  for (int slot = 0; slot < 2; ++slot) s.pod(slot);
  auto& spare = s.pod(2, 1, "Pending");
  spare.node_name.clear();
  spare.scheduled = false;
  spare.unschedulable_reason = "Unschedulable";
  spare.unschedulable_message = "no node is free";
  s.see(Phase::kUp, 1).world_size = 2;
  s.connect();
  s.view->members[2] = {2, 1, false, false, false};
  s.accept();
  EXPECT_TRUE(s.is("Running"));
  EXPECT_TRUE(s.is("Placed"));
  EXPECT_NE(s.condition("Placed")->message.find("no node is free"), std::string::npos);
  s.now += std::chrono::seconds(s.job.spec.deadlines.startup_seconds + 1);
  s.accept();
  EXPECT_TRUE(s.is("Running"));
}

TEST(DecideSpares, when_fewer_are_wanted_the_last_slots_leave_and_no_failure_is_seen) {
  WithSpare s;
  s.gang({0, 2});  // the spare had to take a place
  s.job.spec.spares = 0;
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-2-1");
  EXPECT_TRUE(plan.coordinator->members.back().leaving);
  EXPECT_EQ(s.job.status.released, (std::vector<api::Release>{{2, 1}}));
  EXPECT_TRUE(s.no_failure());
}

TEST(DecideSpares, more_are_made_when_more_are_wanted) {
  WithSpare s;
  s.job.spec.spares = 2;
  EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{3, 2}}));
  EXPECT_TRUE(s.no_failure());
}

TEST(DecideSpares, a_foreign_gang_that_is_too_large_gives_up_pods_despite_spares) {
  WithSpare s;
  s.job.spec.rendezvous.kind = api::RendezvousKind::kTorch;
  s.job.spec.elastic = api::ElasticSpec{.min_nodes = 1};
  s.job.spec.nodes = 1;
  Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 2u) << "slot 2 goes too: names of a round are given once";
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-2-1");
  EXPECT_EQ(plan.deletes[1].name, "a-abcd-1-1");
  EXPECT_EQ(s.job.status.released, (std::vector<api::Release>{{1, 1}}));
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{1, 2}})) << "the next spare";
  s.pod(1, 2);
  plan = s.accept();
  EXPECT_EQ(s.job.status.released, (std::vector<api::Release>{{1, 1}})) << "once";
  EXPECT_TRUE(s.no_failure());
}

TEST(DecideSpares, the_job_is_done_when_as_many_as_train_are) {
  WithSpare s;
  s.pods[0].phase = s.pods[2].phase = "Succeeded";
  s.pods[1].phase = "Pending";
  s.view.reset();
  s.accept();
  EXPECT_TRUE(s.is("Succeeded"));
}

}  // namespace
}  // namespace lockstep::job::decide_spares_test
