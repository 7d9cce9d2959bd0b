// Decisions on an elastic job whose nodes are changed while it runs.
#include <gtest/gtest.h>

#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_scale_test {
namespace {

using namespace std::chrono_literals;
using rendezvous::Phase;

// Pods that run, of which `least` are enough.
struct Scaled : Situation {
  explicit Scaled(int pods_wanted, int least = 1, int procs = 1) : Situation(pods_wanted, procs) {
    job.spec.elastic = api::ElasticSpec{.min_nodes = least, .max_nodes = 8, .stabilization_seconds = 5};
    running();
  }
  Plan scale(int wanted) {
    job.spec.nodes = wanted;
    ++job.meta.generation;
    return accept();
  }
  std::vector<std::string> deleted(const Plan& plan) const {
    std::vector<std::string> names;
    for (const auto& removal : plan.deletes) names.push_back(removal.name);
    return names;
  }
  // The pods that a plan deleted are terminating, and the coordinator knows that they are to leave.
  void carry_out(const Plan& plan) {
    for (auto& pod : pods) {
      for (const auto& removal : plan.deletes) {
        if (pod.meta.name == removal.name) pod.meta.deleted = now + 60s;
      }
    }
    for (const auto& member : plan.coordinator->members) {
      for (auto& seen : view->members) {
        if (seen.slot == member.slot && seen.incarnation == member.incarnation) seen.leaving = member.leaving;
      }
    }
  }
  void pod_is_gone(const std::string& name) {
    std::erase_if(pods, [&](const auto& pod) { return pod.meta.name == name; });
  }
  bool no_failure() const { return job.status.attempts.empty() && job.status.restarts.total == 0 && is("Running"); }
};

std::vector<std::string> reasons(const Plan& plan) {
  std::vector<std::string> list;
  for (const auto& event : plan.events) list.push_back(event.reason);
  return list;
}

using Names = std::vector<std::string>;

TEST(DecideScale, new_slots_get_pods_of_the_present_round) {
  Scaled s(2);
  const Plan plan = s.scale(4);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 1}, {3, 1}}));
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_EQ(plan.coordinator->slots, 4);
  EXPECT_EQ(plan.coordinator->handled_generation, 0);
  EXPECT_EQ(reasons(plan), Names{"ScaledUp"});
  EXPECT_EQ(plan.events[0].note, "nodes was raised from 2 to 4");
  EXPECT_EQ(s.job.status.nodes.desired, 4);
  EXPECT_EQ(s.job.status.nodes.max, 8);
  EXPECT_EQ(s.job.status.nodes.summary, "2/4");
  EXPECT_FALSE(s.is("Placed")) << "what is missing now is no loss";
  EXPECT_TRUE(s.no_failure());
  const Plan again = s.accept();
  EXPECT_TRUE(again.events.empty());
  EXPECT_EQ(again.creates, plan.creates);
}

TEST(DecideScale, when_the_new_pods_are_there_the_job_is_placed_again) {
  Scaled s(2);
  s.scale(3);
  s.pod(2);
  s.accept();
  EXPECT_TRUE(s.is("Placed"));
  EXPECT_EQ(s.job.status.nodes.summary, "3/3");
  s.see(Phase::kUp, 2).world_size = 3;
  s.connect();
  s.accept();
  EXPECT_EQ(s.job.status.world_size, 3);
  EXPECT_EQ(s.condition("Running")->message, "generation 2 runs with 3 ranks");
  EXPECT_TRUE(s.no_failure());
  EXPECT_FALSE(s.plan().status);
}

TEST(DecideScale, slots_from_the_top_leave_and_are_expected_until_they_have_left) {
  Scaled s(4);
  const Plan plan = s.scale(2);
  EXPECT_EQ(s.deleted(plan), (Names{"a-abcd-2-1", "a-abcd-3-1"}));
  EXPECT_EQ(plan.deletes[0].grace_period_seconds, std::nullopt) << "the pod's own: they finish a step";
  EXPECT_EQ(plan.coordinator->slots, 2);
  ASSERT_EQ(plan.coordinator->members.size(), 4u);
  EXPECT_FALSE(plan.coordinator->members[1].leaving);
  EXPECT_TRUE(plan.coordinator->members[2].leaving && plan.coordinator->members[3].leaving);
  EXPECT_EQ(reasons(plan), Names{"ScaledDown"});
  EXPECT_EQ(plan.events[0].note, "nodes was lowered from 4 to 2");
  EXPECT_EQ(s.job.status.released, (std::vector<api::Release>{{2, 1}}));
  EXPECT_EQ(s.job.status.incarnation, 2) << "written before they go: no pod to come has one of their names";
  EXPECT_TRUE(s.no_failure());

  s.carry_out(plan);
  Plan next = s.accept();
  EXPECT_TRUE(next.deletes.empty() && next.creates.empty() && next.events.empty());
  EXPECT_EQ(next.coordinator->members.size(), 4u);

  s.see(Phase::kUp, 2).world_size = 2;
  s.pod_is_gone("a-abcd-2-1");
  s.pods[2].phase = "Failed";
  next = s.accept();
  EXPECT_EQ(next.coordinator->members.size(), 2u) << "one is gone, the other has ended";
  EXPECT_EQ(s.job.status.world_size, 2);
  s.pod_is_gone("a-abcd-3-1");
  s.connect();
  s.accept();
  EXPECT_TRUE(s.job.status.released.empty());
  EXPECT_TRUE(s.is("Placed"));
  EXPECT_TRUE(s.no_failure());
  EXPECT_EQ(s.job.status.nodes.summary, "2/2");
  EXPECT_FALSE(s.plan().status);
}

TEST(DecideScale, a_pod_that_is_still_starting_is_just_deleted) {
  Scaled s(2);
  s.scale(3);
  auto& pod = s.pod(2, 1, "Pending");
  pod.node_name.clear();
  const Plan plan = s.scale(2);
  EXPECT_EQ(s.deleted(plan), Names{"a-abcd-2-1"});
  EXPECT_TRUE(s.no_failure());
  EXPECT_TRUE(s.is("Placed"));
}

TEST(DecideScale, scaling_down_and_up_recreates_pods_without_a_failure) {
  Scaled s(3);
  s.carry_out(s.scale(2));
  Plan plan = s.scale(3);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 2}}));
  EXPECT_EQ(reasons(plan), Names{"ScaledUp"});
  ASSERT_EQ(plan.coordinator->members.size(), 3u);
  EXPECT_TRUE(plan.coordinator->members[2].leaving);
  EXPECT_TRUE(s.no_failure());
  s.pod(2, 2);
  plan = s.accept();
  EXPECT_EQ(plan.coordinator->members[2].incarnation, 1) << "the new one waits until the place is free";
  EXPECT_TRUE(s.no_failure());
  s.pod_is_gone("a-abcd-2-1");
  s.see(Phase::kProposing, 2);
  s.view->members.pop_back();
  plan = s.accept();
  EXPECT_EQ(plan.coordinator->members[2].incarnation, 2);
  EXPECT_FALSE(plan.coordinator->members[2].leaving);
  EXPECT_TRUE(s.no_failure());
  EXPECT_TRUE(s.job.status.released.empty());
}

TEST(DecideScale, the_same_number_changes_nothing) {
  Scaled s(3);
  ++s.job.meta.generation;
  const Plan plan = s.scale(3);
  EXPECT_TRUE(plan.events.empty() && plan.creates.empty() && plan.deletes.empty());
}

TEST(DecideScale, a_change_that_was_taken_back_before_anybody_looked_changes_nothing) {
  Scaled s(3);
  s.job.spec.nodes = 2;
  const Plan plan = s.scale(3);
  EXPECT_TRUE(plan.events.empty() && plan.creates.empty() && plan.deletes.empty());
}

TEST(DecideScale, a_release_continues_while_the_failure_is_recorded) {
  Scaled s(3);
  s.broken(1, api::Cause::kProcessSignal, 1, 137);
  const Plan plan = s.scale(2);
  EXPECT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.restarts.total, 1);
  EXPECT_EQ(plan.coordinator->handled_generation, 1);
  EXPECT_EQ(s.deleted(plan), Names{"a-abcd-2-1"});
  EXPECT_TRUE(plan.coordinator->members[2].leaving);
}

TEST(DecideScale, between_generations_new_slots_are_no_losses) {
  for (const auto phase : {Phase::kWaiting, Phase::kProposing}) {
    Scaled s(2);
    s.see(phase, 2);
    for (auto& member : s.view->members) member.in_gang = member.up = false;
    EXPECT_EQ(s.scale(3).creates, (std::vector<PodToCreate>{{2, 1}}));
    EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{2, 1}}));
    EXPECT_TRUE(s.no_failure());
  }
}

TEST(DecideScale, before_the_first_generation_the_gang_just_has_another_size) {
  Situation s(2);
  s.job.spec.elastic = api::ElasticSpec{.min_nodes = 1};
  s.see(Phase::kWaiting, 0);
  s.accept();
  s.pod(0, 1, "Pending");
  s.pod(1, 1, "Pending");
  s.job.spec.nodes = 3;
  EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{2, 1}}));
  s.job.spec.nodes = 1;
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-1-1");
  EXPECT_TRUE(s.job.status.attempts.empty());
}

TEST(DecideScale, while_suspended_it_is_remembered) {
  Scaled s(2);
  s.job.spec.suspend = true;
  s.accept();
  s.pods.clear();
  s.accept();
  const Plan plan = s.scale(3);
  EXPECT_TRUE(plan.creates.empty() && plan.events.empty());
  s.job.spec.suspend = false;
  EXPECT_EQ(s.accept().creates.size(), 3u);
}

TEST(DecideScale, a_job_that_is_suspended_while_some_leave_lets_all_go) {
  Scaled s(3);
  s.carry_out(s.scale(2));
  s.job.spec.suspend = true;
  s.now += 1s;
  const Plan plan = s.accept();
  EXPECT_TRUE(plan.coordinator->stop);
  EXPECT_EQ(plan.coordinator->members.size(), 3u);
  s.pods.clear();
  s.accept();
  s.job.spec.suspend = false;
  EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{0, 3}, {1, 3}}));
  EXPECT_TRUE(s.job.status.released.empty());
}

// Slot 1 is being replaced: without slot 2 only one would train.
TEST(DecideScale, what_is_needed_to_train_stays_until_others_are_there) {
  Scaled s(3, 2);
  s.view->members.erase(s.view->members.begin() + 1);
  s.pods[1].phase = "Pending";
  s.pods[1].meta.name = "a-abcd-1-2";
  s.pods[1].meta.labels[api::kLabelIncarnation] = "2";
  s.job.status.incarnation = 2;
  s.see(Phase::kUp, 2).world_size = 2;
  Plan plan = s.scale(2);
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_EQ(plan.events.at(0).note, "nodes was lowered from 3 to 2; what is above stays until 2 others are there");
  ASSERT_EQ(plan.coordinator->members.size(), 3u);
  EXPECT_FALSE(plan.coordinator->members[2].leaving);
  s.view->members.insert(s.view->members.begin() + 1, {1, 2, true, false, false});
  plan = s.accept();
  EXPECT_EQ(s.deleted(plan), Names{"a-abcd-2-1"});
  EXPECT_TRUE(plan.coordinator->members[2].leaving);
  EXPECT_TRUE(plan.events.empty());
}

TEST(DecideScale, whatever_happens_to_a_pod_that_leaves_is_no_failure) {
  for (const char* phase : {"Running", "Failed", "Succeeded"}) {
    Scaled s(3);
    s.carry_out(s.scale(2));
    s.pods[2].phase = phase;
    s.node(2, false);
    s.now += 10s;
    s.accept();
    EXPECT_TRUE(s.no_failure()) << phase;
    EXPECT_EQ(s.job.status.incarnation, 2) << phase;
  }
}

TEST(DecideScale, several_ranks_in_each_pod_are_counted_with_their_pods) {
  Scaled s(2, 1, 2);
  const Plan plan = s.scale(3);
  EXPECT_EQ(plan.coordinator->procs_per_node, 2);
  EXPECT_EQ(plan.coordinator->slots, 3);
  s.pod(2);
  s.see(Phase::kUp, 2).world_size = 6;
  s.accept();
  EXPECT_EQ(s.job.status.world_size, 6);
}

TEST(DecideScale, a_loss_of_a_new_pod_before_it_was_taken_in_is_not_charged_to_the_gang) {
  Scaled s(2);
  s.scale(3);
  s.pod(2).meta.deleted = s.now;
  const Plan plan = s.accept();
  EXPECT_TRUE(s.no_failure());
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{2, 2}}));
}

TEST(DecideScale, releases_are_kept_as_long_as_one_of_their_pods_is_there) {
  Scaled s(4);
  s.carry_out(s.scale(3));  // slot 3 of round 1
  s.scale(4);
  s.pod(3, 2);
  s.carry_out(s.scale(2));  // slots 2 and 3, of rounds 1 and 2
  EXPECT_EQ(s.job.status.released, (std::vector<api::Release>{{2, 2}})) << "which says all that the first said";
  s.scale(4);
  s.pod(2, 3);
  s.pod(3, 3);
  s.carry_out(s.scale(3));
  EXPECT_EQ(s.job.status.released, (std::vector<api::Release>{{2, 2}, {3, 3}}));
  s.pod_is_gone("a-abcd-2-1");
  s.pod_is_gone("a-abcd-3-1");
  s.pod_is_gone("a-abcd-3-2");
  s.accept();
  EXPECT_EQ(s.job.status.released, (std::vector<api::Release>{{3, 3}}));
}

}  // namespace
}  // namespace lockstep::job::decide_scale_test
