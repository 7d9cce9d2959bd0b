// Decisions on an elastic job of which too few pods are left to train.
#include <gtest/gtest.h>

#include "operator/job/hold_policy.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_hold_test {
namespace {

using namespace std::chrono_literals;
using rendezvous::Phase;

// Of three pods, two of which are needed, one is left; the pods that replace the others cannot be placed.
struct TooFew : Situation {
  TooFew() : Situation(3) {
    job.spec.elastic = api::ElasticSpec{.min_nodes = 2, .hold_seconds = 300};
    job.spec.checkpoint.path = "/checkpoints";
    running();
    pods[1].meta.deleted = pods[2].meta.deleted = now;
    accept();
    pods.resize(1);
    for (const int slot : {1, 2}) pod(slot, 2, "Pending").node_name.clear();
    see(Phase::kWaiting, 1);
    connect();
    for (auto& member : view->members) {
      member.in_gang = member.up = false;
      member.connected = member.alive = member.slot == 0;
    }
    accept();
  }
};

TEST(DecideHold, they_hold_what_they_have_until_the_time_is_over) {
  TooFew s;
  s.now += 300s;
  const Plan plan = s.accept();
  EXPECT_FALSE(plan.coordinator->stop);
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_LE(plan.requeue_after, Duration(1s));
  EXPECT_EQ(s.job.status.state, "Restarting");
}

TEST(DecideHold, then_they_save_it_and_all_pods_go_and_are_recreated) {
  TooFew s;
  s.now += 301s;
  Plan plan = s.accept();
  EXPECT_TRUE(plan.coordinator->stop);
  EXPECT_EQ(s.reason("Restarting"), kBelowMinimum);
  EXPECT_EQ(s.job.status.state, "Restarting");
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, kBelowMinimum);
  ASSERT_EQ(plan.deletes.size(), 2u) << "those that never ran; the other one saves";
  EXPECT_TRUE(plan.creates.empty());

  s.pods.resize(1);
  s.see(Phase::kWaiting, 1);
  plan = s.accept();
  EXPECT_TRUE(plan.coordinator->stop && plan.deletes.empty() && plan.events.empty());
  s.see(Phase::kStopped, 1);
  plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-0-1");

  s.pods.clear();
  plan = s.accept();
  EXPECT_FALSE(plan.coordinator->stop);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{0, 3}, {1, 3}, {2, 3}}));
  EXPECT_EQ(s.job.status.attempts.size(), 1u) << "the loss that began it";
  EXPECT_EQ(s.job.status.restarts.total, 1);
  EXPECT_TRUE(s.is("Restarting"));

  // One of them is there: it holds nothing, and waits for the next.
  s.pod(0, 3);
  s.see(Phase::kWaiting, 1);
  s.connect();
  s.view->members[0].in_gang = s.view->members[0].up = false;
  s.now += 1000s;
  plan = s.accept();
  EXPECT_FALSE(plan.coordinator->stop);
  EXPECT_TRUE(plan.deletes.empty());
  s.pod(1, 3);
  s.see(Phase::kUp, 2).world_size = 2;
  s.connect();
  s.accept();
  EXPECT_TRUE(s.is("Running"));
}

TEST(DecideHold, without_a_place_for_checkpoints_they_hold_on) {
  TooFew s;
  s.job.spec.checkpoint.path.clear();
  s.now += 1000s;
  EXPECT_FALSE(s.accept().coordinator->stop);
}

TEST(DecideHold, when_enough_are_there_again_nothing_is_let_go) {
  TooFew s;
  s.view->members[1].connected = true;
  s.now += 1000s;
  EXPECT_FALSE(s.accept().coordinator->stop);
}

TEST(DecideHold, a_job_that_is_suspended_meanwhile_is_suspended) {
  TooFew s;
  s.now += 300s;
  s.accept();
  s.job.spec.suspend = true;
  s.accept();
  EXPECT_EQ(s.job.status.state, "Suspended");
  EXPECT_FALSE(s.is("Restarting"));
}

}  // namespace
}  // namespace lockstep::job::decide_hold_test
