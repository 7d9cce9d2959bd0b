// Decisions on a job of which one pod does not reach another: it is recreated, elsewhere where there is room.
#include <gtest/gtest.h>

#include "operator/job/restart_policy.h"
#include "operator/job/slot_troubles.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_links_test {
namespace {

using namespace std::chrono_literals;
using rendezvous::Phase;

using Names = std::vector<std::string>;

// Slot 1 is what the coordinator does without in generation 2, and that is stored.
struct Cut : Situation {
  explicit Cut(bool elastic = false) : Situation(3) {
    if (elastic) job.spec.elastic = api::ElasticSpec{.min_nodes = 2, .stabilization_seconds = 5};
    running(2);
    broken(2, api::Cause::kPartitioned, 1);
  }
};

TEST(DecideLinks, a_partitioned_pod_is_replaced_on_another_node_free_of_charge) {
  Cut s;
  const Plan first = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  const api::Attempt& attempt = s.job.status.attempts[0];
  EXPECT_EQ(attempt.cause, api::Cause::kPartitioned);
  EXPECT_EQ(attempt.strategy, api::Strategy::kReplaceFailed);
  EXPECT_EQ(attempt.pod, "a-abcd-1-1");
  EXPECT_EQ(attempt.node, "node-1");
  EXPECT_FALSE(attempt.counted);
  EXPECT_TRUE(first.deletes.empty() && first.creates.empty()) << "what is done relies on what is stored";
  EXPECT_EQ(first.coordinator->handled_generation, 2);

  const Plan second = s.accept();
  ASSERT_EQ(second.deletes.size(), 1u);
  EXPECT_EQ(second.deletes[0].name, "a-abcd-1-1");
  EXPECT_EQ(second.creates, (std::vector<PodToCreate>{{1, 2, {"node-1"}}}));
  EXPECT_EQ(second.coordinator->members.size(), 2u);
  EXPECT_EQ(s.job.status.attempts.size(), 1u);

  s.pods[1].meta.deleted = s.now + 30s;
  s.pod(1, 2, "Pending");
  const Plan third = s.accept();
  EXPECT_TRUE(third.creates.empty() && third.deletes.empty());
  EXPECT_EQ(s.job.status.attempts.size(), 1u) << "its deletion is no news";
}

TEST(DecideLinks, a_pod_that_is_gone_before_its_successor_is_seen_is_no_second_failure) {
  Cut s;
  s.accept();
  EXPECT_FALSE(s.is("Placed"));
  s.accept();
  s.pods.erase(s.pods.begin() + 1);
  EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{1, 2, {"node-1"}}}));
  EXPECT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.incarnation, 2);
}

TEST(DecideLinks, an_elastic_gang_runs_on_while_the_pod_is_recreated) {
  Cut s(true);
  s.accept();
  s.see(Phase::kUp, 3).world_size = 2;
  s.view->members[1].in_gang = s.view->members[1].up = false;
  const Plan plan = s.accept();
  EXPECT_TRUE(s.is("Running"));
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-1-1");
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{1, 2, {"node-1"}}}));
  EXPECT_EQ(plan.coordinator->handled_generation, 2) << "generation 3 goes on";
  EXPECT_EQ(s.job.status.restarts.total, 1);
}

TEST(DecideLinks, a_pod_that_goes_at_the_same_moment_is_told_of_as_partitioned) {
  Cut s;
  s.pods[1].meta.deleted = s.now + 30s;
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPartitioned);
  EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{1, 2, {"node-1"}}}));
}

TEST(DecideLinks, a_rule_may_end_the_job_for_it) {
  Cut s;
  s.job.spec.restart.rules = {{.on_reasons = {"Partitioned"}, .action = api::RuleAction::kFail}};
  s.accept();
  EXPECT_TRUE(s.is("Failed"));
}

TEST(DecideLinks, the_node_is_avoided_for_ten_minutes_however_many_attempts_follow) {
  Cut s;
  s.accept();
  s.accept();
  s.pods.erase(s.pods.begin() + 1);
  s.pod(1, 2).node_name = "node-5";
  for (std::int64_t generation = 3; generation < 15; ++generation) {
    s.see(Phase::kUp, generation);
    s.connect();
    s.accept();
    s.broken(generation, api::Cause::kConnectionBroken, 0);
    s.accept();
  }
  s.pods.pop_back();  // the successor's
  s.accept();
  s.now += 100s;
  EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{1, 3, {"node-1"}}}));
}

TEST(NodesToAvoid, are_those_of_the_last_ten_minutes_each_once) {
  const WallTime now{1'000'000s};
  using api::SlotTrouble;
  const auto entry = [&](SlotTrouble trouble, const char* node, std::chrono::seconds ago) {
    return api::SlotStatus{.trouble = trouble, .pod = "p", .node = node, .since = now - ago};
  };
  EXPECT_EQ(nodes_to_avoid({entry(SlotTrouble::kPartitioned, "old", 601s), entry(SlotTrouble::kPartitioned, "a", 599s),
                            entry(SlotTrouble::kNodeLost, "dead", 5s), entry(SlotTrouble::kPartitioned, "b", 9s),
                            entry(SlotTrouble::kPartitioned, "a", 3s), entry(SlotTrouble::kPartitioned, "", 1s)},
                           now),
            (Names{"a", "b"}));
}

}  // namespace
}  // namespace lockstep::job::decide_links_test
