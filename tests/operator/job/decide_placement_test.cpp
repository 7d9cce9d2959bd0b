// What becomes of the placer's answer in a decision: creates, moves, opens, replacements and releases.
#include "operator/job/placement_policy.h"

#include <gtest/gtest.h>

#include <functional>

#include "operator/job/children.h"
#include "tests/operator/job/placed.h"

namespace lockstep::job::decide_placement_test {
namespace {

using namespace std::chrono_literals;
using api::RestartStrategy;
using placement::Why;
using rendezvous::Phase;

std::vector<std::string> names(const std::vector<PodToDelete>& deletes) {
  std::vector<std::string> names;
  for (const auto& removal : deletes) names.push_back(removal.name);
  return names;
}

// ---- creates, moves, opens ----

TEST(DecidePlacement, no_pod_is_created_without_a_node) {
  Placed s(3);
  s.accept();
  EXPECT_TRUE(s.plan().creates.empty()) << "nothing is decided yet";
  s.answer();
  EXPECT_TRUE(s.plan().creates.empty()) << "there is no room";
  s.answer().nodes = {{0, "x"}, {2, "y"}};
  EXPECT_EQ(s.plan().creates, (std::vector<PodToCreate>{{.slot = 0, .incarnation = 1, .node = "x", .gated = true},
                                                        {.slot = 2, .incarnation = 1, .node = "y", .gated = true}}));
  s.answer().gated = false;
  EXPECT_FALSE(s.plan().creates.at(0).gated);
  s.placing.reset();
  EXPECT_EQ(s.plan().creates, (std::vector<PodToCreate>{{0, 1}, {1, 1}, {2, 1}})) << "of kube-scheduler";
}

TEST(DecidePlacement, creates_moves_and_opens_wait_until_their_round_is_stored) {
  Placed s;
  s.place_all().open = true;
  s.service = false;
  const Plan first = s.accept();
  EXPECT_EQ(first.status->incarnation, 1);
  EXPECT_TRUE(first.creates.empty());
  EXPECT_EQ(first.service, ServiceStep::kNone);
  EXPECT_EQ(first.requeue_after, 0s);
  EXPECT_EQ(s.plan().creates.size(), 2U);
  s.gated(0, 7);  // a status that was lost: the pod shows a newer round than is stored
  s.gated(1, 7).reserved_node = "elsewhere";
  const Plan lost = s.accept();
  EXPECT_TRUE(lost.opens.empty() && lost.moves.empty());
  const Plan stored = s.accept();
  EXPECT_EQ(stored.opens.size(), 1U);
  EXPECT_EQ(stored.moves.size(), 1U);
}

TEST(DecidePlacement, a_pod_is_opened_only_on_the_node_of_the_answer) {
  Placed s(3);
  s.accept();
  s.gated(0).has_node_affinity = true;
  s.gated(1).reserved_node = "elsewhere";
  s.pods[1].gates = {"x", api::kPlacementGate};
  s.pinned(2).gates = {"x"};
  s.place_all();
  Plan plan = s.plan();
  EXPECT_TRUE(plan.opens.empty());
  EXPECT_EQ(plan.moves, (std::vector<PodToMove>{{"a-abcd-1-1", "uid-1-1", "elsewhere", "node-1"}}));
  s.answer().open = true;
  plan = s.plan();
  EXPECT_EQ(plan.opens,
            (std::vector<PodToOpen>{
                {.name = "a-abcd-0-1", .uid = "uid-0-1", .slot = 0, .node = "node-0", .has_node_affinity = true}}));
  EXPECT_EQ(plan.moves.size(), 1U) << "opened one decision later";
  s.pods[1].reserved_node = "node-1";
  plan = s.plan();
  ASSERT_EQ(plan.opens.size(), 2U) << "the third has no gate of ours";
  EXPECT_EQ(plan.opens[1].gate, 1U);
  EXPECT_EQ(plan.opens[1].slot, 1);
  s.answer().nodes.erase(0);
  EXPECT_EQ(s.plan().opens.size(), 1U) << "its place was given up";
  s.placing->answer.reset();
  plan = s.plan();
  EXPECT_TRUE(plan.opens.empty() && plan.moves.empty() && plan.deletes.empty()) << "nothing is decided";
}

TEST(DecidePlacement, after_a_refused_create_the_pods_that_are_there_wait) {
  Placed s(2);
  s.accept();
  s.gated(0);
  s.place_all();
  s.problem =
      CreateProblem{.kind = "Pod", .name = "a-abcd-1-1", .code = ErrorCode::kForbidden, .last = s.now, .times = 1};
  s.problem->message = "exceeded quota: q";
  s.see(Phase::kWaiting, 0);
  const Plan plan = s.accept();
  EXPECT_EQ(names(plan.deletes), (std::vector<std::string>{"a-abcd-0-1"})) << "a part of a gang is released";
  EXPECT_TRUE(plan.creates.empty() && plan.opens.empty() && plan.moves.empty());
}

// ---- replacement ----

struct Path {
  const char* name;
  // Leaves the job with the bound pod of a slot that never ran, and returns its name.
  std::function<std::string(Placed&)> come_to_it;
};

const Path kPaths[] = {
    {"first start",
     [](Placed& s) {
       s.place_all();
       s.accept();
       s.pod(0);
       return s.pod(1, 1, "Pending").meta.name;
     }},
    {"first start, all bound",
     [](Placed& s) {
       s.place_all();
       s.accept();
       s.pod(0);
       const auto name = s.pod(1, 1, "Pending").meta.name;
       s.see(Phase::kWaiting, 0);
       s.accept();
       EXPECT_TRUE(s.is("Placed"));
       return name;
     }},
    {"successor in a running gang",
     [](Placed& s) {
       s.training();
       s.remove("a-abcd-1-1");
       s.see(Phase::kWaiting, 1);
       s.accept();
       const auto name = s.pod(1, 2, "Pending").meta.name;
       s.accept();
       return name;
     }},
    {"spare",
     [](Placed& s) {
       s.job.spec.spares = 1;
       s.training();
       s.connect();
       const auto name = s.pod(2, 1, "Pending").meta.name;
       s.accept();
       return name;
     }},
    {"growth",
     [](Placed& s) {
       s.job.spec.elastic = api::ElasticSpec{.min_nodes = 1, .max_nodes = 4};
       s.training();
       s.job.spec.nodes = 3;
       s.place_all();
       s.accept();
       const auto name = s.pod(2, 1, "Pending").meta.name;
       s.accept();
       return name;
     }},
    {"elastic gang that runs without it",
     [](Placed& s) {
       s.job.spec.elastic = api::ElasticSpec{.min_nodes = 1, .max_nodes = {}};
       s.training();
       s.remove("a-abcd-1-1");
       s.accept();
       s.see(Phase::kUp, 2);
       s.view->members = {{0, 1, true, true, true}};
       s.accept();
       const auto name = s.pod(1, s.job.status.incarnation, "Pending").meta.name;
       s.accept();
       return name;
     }},
    {"strategy Gang",
     [](Placed& s) {
       s.job.spec.restart.strategy = RestartStrategy::kGang;
       s.training();
       s.remove("a-abcd-1-1");
       s.see(Phase::kWaiting, 1);
       s.accept();
       s.pods.clear();
       s.pod(0, 2);
       const auto name = s.pod(1, 2, "Pending").meta.name;
       s.accept();
       return name;
     }},
};

TEST(DecidePlacement, a_refused_pod_is_created_again_under_its_name_without_an_attempt) {
  for (const Path& path : kPaths) {
    SCOPED_TRACE(path.name);
    Placed s;
    const std::string name = path.come_to_it(s);
    const auto attempts = s.job.status.attempts;
    const auto incarnation = s.job.status.incarnation;
    const int slot = identity_of(s.pods.back().meta)->slot;
    s.refuse(s.pods.back());
    // The placer is told first: it avoids the node, and paces the next try.
    s.answer().nodes.erase(slot);
    Plan plan = s.accept();
    EXPECT_TRUE(plan.deletes.empty() && plan.creates.empty());
    const bool spare = slot >= s.job.spec.nodes;
    EXPECT_EQ(s.is("Placed"), spare) << "a spare delays no condition";
    EXPECT_EQ(s.reason("Placed"), spare ? "GangPlaced" : "Replacing");
    EXPECT_NE(s.condition("Placed")->message.find("OutOfcpu"), std::string::npos);
    s.answer().replace = {"default/" + name};
    plan = s.accept();
    ASSERT_EQ(names(plan.deletes), (std::vector<std::string>{name}));
    EXPECT_EQ(plan.deletes[0].resource_version, "99");
    EXPECT_EQ(plan.deletes[0].uid, s.pods.back().meta.uid);
    EXPECT_TRUE(plan.creates.empty()) << "its name is taken";
    s.pods.back().meta.deleted = s.now;  // the kubelet has yet to agree
    plan = s.accept();
    EXPECT_TRUE(plan.deletes.empty() && plan.creates.empty());
    s.remove(name);
    s.answer().replace.clear();
    EXPECT_TRUE(s.accept().creates.empty()) << "no node yet";
    s.answer().nodes[slot] = "other";
    s.answer().gated = false;
    plan = s.accept();
    ASSERT_EQ(plan.creates.size(), 1U);
    EXPECT_EQ(plan.creates[0].slot, slot);
    EXPECT_EQ(pod_name(s.job, slot, plan.creates[0].incarnation), name);
    EXPECT_EQ(plan.creates[0].node, "other");
    EXPECT_EQ(s.job.status.attempts, attempts);
    EXPECT_EQ(s.job.status.incarnation, incarnation);
  }
}

TEST(DecidePlacement, placed_is_false_in_the_status_that_is_written_before_the_delete) {
  Placed s;
  const std::string name = kPaths[1].come_to_it(s);
  s.refuse(s.pods.back());
  s.answer().replace = {"default/" + name};
  const Plan plan = s.accept();
  EXPECT_EQ(plan.deletes.size(), 1U);
  ASSERT_TRUE(plan.status);
  EXPECT_FALSE(api::is_true(plan.status->conditions, "Placed"));
}

TEST(DecidePlacement, a_pod_that_cannot_be_scheduled_on_its_node_is_created_again) {
  Placed s;
  s.place_all();
  s.accept();
  s.pod(0);
  s.pinned(1).unschedulable_reason = "Unschedulable";
  EXPECT_TRUE(s.accept().deletes.empty()) << "for as long as the placer waits";
  s.answer().replace = {"default/a-abcd-1-1", "default/a-abcd-0-1"};
  s.answer().nodes.erase(1);
  const Plan plan = s.accept();
  EXPECT_EQ(names(plan.deletes), (std::vector<std::string>{"a-abcd-1-1"})) << "one that is bound stays";
  EXPECT_EQ(plan.deletes[0].resource_version, "11");
  s.pods[1].meta.deleted = s.now;  // something else holds it
  EXPECT_TRUE(s.accept().deletes.empty());
  EXPECT_TRUE(s.job.status.attempts.empty());
  s.remove("a-abcd-1-1");
  s.place_all();
  EXPECT_EQ(s.accept().creates.size(), 1U);
  EXPECT_TRUE(s.job.status.attempts.empty());
}

TEST(DecidePlacement, a_member_of_a_generation_that_a_kubelet_refuses_is_a_loss) {
  Placed s;
  s.training();
  s.refuse(s.pods[1]);  // its node has booted
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1U);
  EXPECT_EQ(s.job.status.attempts[0].pod, "a-abcd-1-1");
  EXPECT_EQ(s.job.status.incarnation, 2);
}

TEST(DecidePlacement, a_refusal_under_kube_scheduler_is_paced_by_the_budget) {
  Situation s;
  s.accept();
  s.pod(0);
  api::Pod& refused = s.pod(1);
  refused.phase = "Failed";
  refused.reason = "OutOfcpu";
  s.see(Phase::kWaiting, 0);
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1U);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPodFailed);
  EXPECT_TRUE(s.job.status.attempts[0].counted);
}

TEST(DecidePlacement, a_pod_that_does_not_fit_to_who_places_it_is_created_again) {
  struct Row {
    const char* name;
    bool by_operator;
    std::function<void(Placed&)> make;
    bool deleted;
  };
  const Row rows[] = {
      {"of kube-scheduler", true, [](Placed& s) { s.unbound(0); }, true},
      {"without its annotation", true, [](Placed& s) { s.gated(0).reserved_node.clear(); }, true},
      {"with another gate", true, [](Placed& s) { s.unbound(0).gates = {"x"}; }, true},
      {"bound", true, [](Placed& s) { s.pod(0); }, false},
      {"gated by us", true, [](Placed& s) { s.gated(0); }, false},
      {"pinned", true, [](Placed& s) { s.pinned(0); }, false},
      {"going away", true, [](Placed& s) { s.unbound(0).meta.deleted = s.now; }, false},
      {"gated, of kube-scheduler now", false, [](Placed& s) { s.gated(0); }, true},
      {"pinned, of kube-scheduler now", false, [](Placed& s) { s.pinned(0); }, true},
      {"bound, of kube-scheduler now", false, [](Placed& s) { s.pod(0).reserved_node = "node-0"; }, false},
      {"unbound, of kube-scheduler now", false, [](Placed& s) { s.unbound(0); }, false},
  };
  for (const Row& row : rows) {
    Placed s;
    s.accept();
    row.make(s);
    s.pods[0].meta.resource_version = "5";
    if (!row.by_operator) s.placing.reset();
    const Plan plan = s.accept();
    EXPECT_EQ(plan.deletes.size(), row.deleted ? 1U : 0U) << row.name;
    if (!row.deleted) continue;
    EXPECT_EQ(plan.deletes.at(0).resource_version, "5") << row.name;
    EXPECT_FALSE(s.is("Placed")) << row.name;
    EXPECT_TRUE(s.job.status.attempts.empty()) << row.name;
    s.pods.clear();
    if (row.by_operator) s.place_all();
    EXPECT_EQ(s.accept().creates.size(), 2U) << row.name;
    EXPECT_TRUE(s.job.status.attempts.empty()) << row.name;
  }
}

// ---- release ----

TEST(DecidePlacement, a_released_gang_begins_a_round_without_an_attempt) {
  Placed s(3);
  s.accept();
  s.pod(0, 1, "Pending");
  s.gated(1);
  s.refuse(s.pod(2));
  s.wait(Why::kReleasing).release = true;
  Plan plan = s.accept();
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->incarnation, 2);
  EXPECT_EQ(names(plan.deletes), (std::vector<std::string>{"a-abcd-0-1", "a-abcd-1-1", "a-abcd-2-1"}));
  EXPECT_TRUE(plan.creates.empty() && plan.opens.empty() && plan.moves.empty());
  EXPECT_EQ(s.reason("Placed"), "Replacing") << "a refusal is named";
  EXPECT_EQ(
      std::count_if(plan.events.begin(), plan.events.end(), [](const auto& e) { return e.reason == "GangReleased"; }),
      1);
  s.remove("a-abcd-1-1");
  s.remove("a-abcd-2-1");
  s.pods[0].meta.deleted = s.now + 30s;  // it is bound, so it gets its grace period
  plan = s.accept();
  EXPECT_EQ(s.job.status.incarnation, 2) << "one round";
  EXPECT_TRUE(plan.deletes.empty() && plan.creates.empty());
  EXPECT_EQ(s.reason("Placed"), "GangReleased");
  s.pods.clear();
  s.place_all();
  plan = s.accept();
  EXPECT_EQ(plan.creates.size(), 3U);
  EXPECT_EQ(plan.creates.at(0).incarnation, 2);
  EXPECT_TRUE(s.job.status.attempts.empty());
  EXPECT_EQ(s.job.status.restarts.total, 0);
}

TEST(DecidePlacement, an_operator_that_died_while_it_released_a_gang_goes_on) {
  Placed s(2);
  s.accept();
  s.pod(0, 1, "Pending");
  s.wait(Why::kReleasing).release = true;
  s.accept();  // stored, and nothing is deleted
  EXPECT_EQ(gang_of(s.snapshot()).seats[0].pod, "default/a-abcd-0-1");
  const Plan again = s.accept();
  EXPECT_EQ(names(again.deletes), (std::vector<std::string>{"a-abcd-0-1"}));
  EXPECT_EQ(s.job.status.incarnation, 2) << "the round is new already";
}

TEST(DecidePlacement, a_gang_with_a_generation_is_not_released) {
  for (const Phase phase : {Phase::kProposing, Phase::kStarting, Phase::kUp}) {
    Placed s;
    s.job.spec.checkpoint.path = "/checkpoint";
    s.training();
    s.see(phase, 2);
    s.answer() = {};
    s.answer().release = true;
    const Plan plan = s.accept();
    EXPECT_TRUE(plan.deletes.empty() && plan.creates.empty()) << static_cast<int>(phase);
    EXPECT_EQ(s.job.status.incarnation, 1);
  }
}

TEST(DecidePlacement, no_generation_is_formed_of_a_gang_that_is_released) {
  Placed s(2);
  s.accept();
  for (int slot = 0; slot < 2; ++slot) s.pod(slot);
  s.see(Phase::kWaiting, 0);
  s.place_all();
  EXPECT_EQ(s.plan().coordinator->members.size(), 2U);
  s.answer() = {};
  s.answer().release = true;
  const Plan plan = s.accept();
  EXPECT_EQ(names(plan.deletes), (std::vector<std::string>{"a-abcd-0-1", "a-abcd-1-1"}));
  EXPECT_TRUE(plan.coordinator->members.empty()) << "its end would be an attempt";
}

TEST(DecidePlacement, a_released_gang_that_has_trained_loses_no_attempt_either) {
  Placed s;
  s.job.spec.checkpoint.path = "/checkpoint";
  s.training();
  s.remove("a-abcd-1-1");
  s.see(Phase::kWaiting, 1);
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1U);
  s.answer() = {};
  s.answer().release = true;
  EXPECT_EQ(names(s.accept().deletes), (std::vector<std::string>{"a-abcd-0-1"}));
  s.pods[0].meta.deleted = s.now;
  s.accept();
  s.pods.clear();
  s.place_all();
  EXPECT_EQ(s.accept().creates.size(), 2U);
  EXPECT_EQ(s.job.status.attempts.size(), 1U);
}

}  // namespace
}  // namespace lockstep::job::decide_placement_test
