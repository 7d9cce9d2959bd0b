// Decisions on pods whose node other tools call dead, while its kubelet and the agents speak.
#include <gtest/gtest.h>

#include "operator/job/death_policy.h"
#include "tests/operator/job/situation.h"
#include "tests/operator/job/world.h"

namespace lockstep::job::decide_dead_test {
namespace {

using namespace std::chrono_literals;
using api::Cause;
using rendezvous::Phase;

constexpr const char* kSign = "label:example.com/dead";

struct Gang : TrainingThree {
  explicit Gang(int spares = 0) : TrainingThree(spares) {}
  static Gang elastic() {
    Gang gang;
    gang.shrinks_to(2);
    return gang;
  }
  void kill(int slot) { dead_nodes[pods.at(static_cast<size_t>(slot)).node_name] = kSign; }
  // The pod of slot 1 is gone, and its successor runs on the same node.
  void come_back() {
    pods.erase(pods.begin() + 1);
    pod(1, 2);
    see(Phase::kUp, 2);
    connect();
    accept();
  }
  std::vector<int> expected() const {
    std::vector<int> slots;
    const Plan decided = plan();
    for (const auto& member : decided.coordinator->members) slots.push_back(member.slot);
    return slots;
  }
};

TEST(DecideDead, a_pod_of_a_dead_node_is_replaced_at_once_though_it_speaks) {
  Gang s;
  s.kill(1);
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1U);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-1-1");
  EXPECT_EQ(plan.deletes[0].grace_period_seconds, s.job.spec.restart.force_delete_after_seconds);
  ASSERT_EQ(plan.creates.size(), 1U);
  EXPECT_EQ(plan.creates[0].slot, 1);
  EXPECT_EQ(plan.creates[0].incarnation, 2);
  EXPECT_EQ(plan.creates[0].avoid_nodes, std::vector<std::string>{"node-1"});
}

// The coordinator turns its agent away, which ends its processes, and waits for the others' promise.
TEST(DecideDead, its_agent_is_expected_no_longer) {
  Gang s;
  s.kill(1);
  s.accept();
  EXPECT_EQ(s.expected(), (std::vector<int>{0, 2}));
  EXPECT_EQ(s.plan().coordinator->handled_generation, 1);
}

TEST(DecideDead, its_attempt_names_the_sign_and_charges_nothing) {
  Gang s;
  s.kill(1);
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1U);
  const auto& attempt = s.job.status.attempts[0];
  EXPECT_EQ(attempt.cause, Cause::kNodeLost);
  EXPECT_EQ(attempt.message, "node node-1 of pod a-abcd-1-1 counts as lost: it has label:example.com/dead");
  EXPECT_EQ(attempt.node, "node-1");
  EXPECT_EQ(attempt.generation, 1);
  EXPECT_FALSE(attempt.counted);
  EXPECT_EQ(s.job.status.restarts.charged, 0);
  ASSERT_EQ(plan.events.size(), 1U);
  EXPECT_EQ(plan.events[0].reason, "NodeLost");
  EXPECT_EQ(plan.events[0].note, attempt.message);
}

TEST(DecideDead, the_loss_is_told_once) {
  Gang s;
  s.kill(1);
  s.accept();
  const Plan again = s.accept();
  EXPECT_EQ(again.deletes.size(), 1U) << "a crash before the delete repeats it";
  EXPECT_TRUE(again.events.empty());
  EXPECT_EQ(s.job.status.attempts.size(), 1U);
  EXPECT_EQ(s.job.status.slots->size(), 1U);
}

TEST(DecideDead, what_does_not_go_is_removed_by_force) {
  Gang s;
  s.kill(1);
  s.accept();
  const auto patience = std::chrono::seconds(s.job.spec.restart.force_delete_after_seconds);
  s.pods[1].meta.deleted = s.now + patience;
  EXPECT_TRUE(s.accept().deletes.empty());
  s.now += patience;
  const Plan forced = s.accept();
  ASSERT_EQ(forced.deletes.size(), 1U);
  EXPECT_EQ(forced.deletes[0].grace_period_seconds, 0);
}

TEST(DecideDead, an_elastic_gang_goes_on_without_it) {
  Gang s = Gang::elastic();
  s.kill(2);
  s.accept();
  EXPECT_EQ(s.expected(), (std::vector<int>{0, 1}));
  EXPECT_EQ(s.job.status.attempts.at(0).cause, Cause::kNodeLost);
}

TEST(DecideDead, nothing_is_waited_for_below_min_nodes) {
  Gang s = Gang::elastic();
  s.job.spec.elastic->min_nodes = 3;
  s.kill(2);
  EXPECT_EQ(s.accept().deletes.size(), 1U);
}

TEST(DecideDead, a_spare_of_a_dead_node_is_replaced_and_nobody_restarts) {
  Gang s(1);
  s.kill(3);
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1U);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-3-1");
  ASSERT_EQ(plan.creates.size(), 1U);
  EXPECT_EQ(plan.creates[0].avoid_nodes, std::vector<std::string>{"node-3"});
  EXPECT_TRUE(s.job.status.attempts.empty());
  EXPECT_TRUE(s.is("Running"));
}

TEST(DecideDead, all_pods_of_the_node_go_together) {
  Gang s;
  s.pods[2].node_name = "node-1";
  s.pods[2].meta.labels[api::kLabelIncarnation] = "4";  // it was replaced there once, before the sign
  s.pods[2].meta.name = "a-abcd-2-4";
  s.job.status.incarnation = 4;
  s.connect();
  s.kill(1);
  EXPECT_EQ(s.accept().deletes.size(), 2U);
  EXPECT_EQ(s.accept().deletes.size(), 2U) << "each is known to be lost";
  EXPECT_EQ(s.job.status.attempts.size(), 1U);
}

TEST(DecideDead, the_whole_gang_restarts_where_the_strategy_says_so) {
  Gang s;
  s.job.spec.restart.strategy = api::RestartStrategy::kGang;
  s.kill(0);
  EXPECT_EQ(s.accept().deletes.size(), 3U);
}

TEST(DecideDead, a_successor_that_found_no_other_node_stays_there_for_ten_minutes) {
  Gang s;
  s.kill(1);
  s.accept();
  s.come_back();
  const Plan plan = s.plan();
  EXPECT_TRUE(plan.deletes.empty() && plan.creates.empty());
  EXPECT_EQ(s.job.status.attempts.size(), 1U);
  ASSERT_TRUE(plan.requeue_after);
  EXPECT_LE(*plan.requeue_after, 10min) << "nothing else wakes the job then";
  s.now += 10min;
  EXPECT_EQ(s.accept().deletes.size(), 1U);
  EXPECT_EQ(s.job.status.attempts.size(), 2U);
}

TEST(DecideDead, a_pod_on_a_node_that_another_left_because_it_was_sick_is_lost) {
  Gang s;
  s.job.status.slots = {{.slot = 2,
                         .trouble = api::SlotTrouble::kUnhealthy,
                         .pod = "a-abcd-2-0",
                         .node = "node-1",
                         .since = s.now,
                         .sign = "nvidia.com/gpu GPU-1 is Unhealthy"}};
  s.kill(1);
  EXPECT_EQ(s.accept().deletes.size(), 1U);
}

TEST(DecideDead, a_spare_that_found_no_other_node_stays_there_too) {
  Gang s(1);
  s.kill(3);
  s.accept();
  s.pods.erase(s.pods.begin() + 3);
  s.pod(3, 2);
  s.connect();
  s.view->members[3].in_gang = s.view->members[3].up = false;
  EXPECT_TRUE(s.accept().deletes.empty());
}

TEST(DecideDead, a_silent_member_whose_node_is_called_dead_was_lost_with_it) {
  Gang s = Gang::elastic();
  s.broken(1, Cause::kMemberLost, 2);
  s.view->members[2].connected = false;
  s.accept();
  ASSERT_EQ(s.job.status.attempts.at(0).cause, Cause::kMemberLost);
  s.kill(2);
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1U);
  EXPECT_EQ(s.job.status.attempts[0].cause, Cause::kNodeLost);
  ASSERT_EQ(s.job.status.slots->size(), 1U);
  EXPECT_EQ(s.job.status.slots->at(0).sign, kSign);
}

TEST(DecideDead, a_pod_that_succeeded_is_not_lost) {
  Gang s;
  s.pods[1].phase = "Succeeded";
  s.kill(1);
  const Plan plan = s.accept();
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_TRUE(s.job.status.attempts.empty());
}

TEST(DecideDead, a_job_that_is_suspended_may_save_what_the_node_holds) {
  Gang s;
  s.job.spec.suspend = true;
  s.kill(1);
  const Plan plan = s.accept();
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_EQ(plan.coordinator->members.size(), 3U);
}

// The world has three nodes.
TEST(DecideDead, of_many_nodes_that_are_dead_before_a_decision_none_counts_as_lost) {
  for (const int many : {2, 3}) {
    World world;
    world.create_job();
    world.run(10);
    for (int node = 0; node < many; ++node) world.call_dead(node, true);
    world.run(10);
    EXPECT_EQ(world.job().status.attempts.empty(), many == 3) << many;
    EXPECT_TRUE(world.violations.empty() || many == 3) << world.violations.front();
  }
}

TEST(DecideDead, nothing_is_judged_before_the_coordinator_knows_the_job) {
  Gang s;
  s.view.reset();
  s.kill(1);
  const Plan plan = s.accept();
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_TRUE(s.job.status.attempts.empty());
}

}  // namespace
}  // namespace lockstep::job::decide_dead_test
