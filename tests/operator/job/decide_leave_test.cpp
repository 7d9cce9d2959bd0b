// Decisions on members whose node, or a device of theirs, is sick.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "operator/job/leave_policy.h"
#include "operator/job/slot_troubles.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_leave_test {
namespace {

using namespace std::chrono_literals;
using api::Cause;
using rendezvous::Phase;

constexpr const char* kSign = "nvidia.com/gpu GPU-0 is Unhealthy";
constexpr const char* kDoubt = "more than 20 % of all nodes became sick together";

struct Gang : TrainingThree {
  explicit Gang(int spares = 1) : TrainingThree(spares) {}
  static Gang elastic() {
    Gang gang(0);
    gang.shrinks_to(2);
    return gang;
  }
  Sickness& sicken(int slot, Duration age = kSignLasts) {
    return sick_pods[pods.at(static_cast<size_t>(slot)).meta.name] = {kSign, age};
  }
  api::Pod& go(int slot) {
    auto& pod = pods.at(static_cast<size_t>(slot));
    pod.meta.deleted = now + 30s;
    return pod;
  }
  std::string leaves() const {
    std::string names;
    for (const auto& removal : plan().deletes) names += (names.empty() ? "" : " ") + removal.name;
    return names;
  }
};

TEST(DecideLeave, a_sick_member_leaves_if_a_spare_is_ready) {
  Gang s;
  s.sicken(1);
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1U);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-1-1");
  EXPECT_EQ(plan.deletes[0].grace_period_seconds, std::nullopt) << "it ends its step";
  ASSERT_EQ(plan.events.size(), 1U);
  EXPECT_EQ(plan.events[0].reason, "Unhealthy");
  EXPECT_EQ(plan.events[0].note, "pod a-abcd-1-1 leaves node node-1: nvidia.com/gpu GPU-0 is Unhealthy");
  EXPECT_TRUE(s.is("Running"));
  const auto& members = plan.coordinator->members;
  ASSERT_EQ(members.size(), 4U);
  EXPECT_TRUE(members[1].leaving && !members[0].leaving && !members[2].leaving && !members[3].leaving);
}

TEST(DecideLeave, its_attempt_names_the_sign_and_charges_nothing) {
  Gang s;
  s.sicken(1);
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1U);
  const auto& attempt = s.job.status.attempts[0];
  EXPECT_EQ(attempt.cause, Cause::kUnhealthy);
  EXPECT_EQ(attempt.message, "pod a-abcd-1-1 leaves node node-1: nvidia.com/gpu GPU-0 is Unhealthy");
  EXPECT_EQ(attempt.pod, "a-abcd-1-1");
  EXPECT_FALSE(attempt.counted);
  EXPECT_EQ(s.job.status.restarts.total, 0);
}

TEST(DecideLeave, its_departure_is_no_further_attempt_whatever_is_seen_of_it) {
  for (const bool seen : {true, false}) {
    Gang s;
    s.sicken(1);
    s.accept();
    if (seen) {
      s.go(1);
      s.accept();
    }
    s.pods.erase(s.pods.begin() + 1);
    s.accept();
    EXPECT_EQ(s.job.status.attempts.size(), 1U) << seen;
    EXPECT_TRUE(s.is("Running"));
  }
}

TEST(DecideLeave, its_successor_is_created_at_once_and_avoids_the_node) {
  Gang s;
  s.sicken(1);
  const Plan plan = s.accept();
  ASSERT_EQ(plan.creates.size(), 1U);
  EXPECT_EQ(plan.creates[0].slot, 1);
  EXPECT_EQ(plan.creates[0].incarnation, 2);
  EXPECT_EQ(plan.creates[0].avoid_nodes, std::vector<std::string>{"node-1"});
}

TEST(DecideLeave, a_pod_that_does_not_go_keeps_its_successor_waiting_for_ten_seconds) {
  Gang s;
  s.sicken(1);
  s.accept();
  api::Pod& stuck = s.go(1);
  const auto due = *stuck.meta.deleted;
  s.pod(1, 2);
  const auto member = [&] { return s.accept().coordinator->members[1]; };
  EXPECT_EQ(member().incarnation, 1);
  s.now = due + kLeaveOverdue - 1s;
  EXPECT_EQ(member().incarnation, 1);
  EXPECT_TRUE(member().leaving);
  ASSERT_TRUE(s.plan().requeue_after);
  EXPECT_LE(*s.plan().requeue_after, 1s);
  s.now = due + kLeaveOverdue;
  EXPECT_EQ(member().incarnation, 2);
  EXPECT_FALSE(member().leaving);
}

TEST(DecideLeave, a_rule_may_end_the_job_instead) {
  Gang s;
  s.job.spec.restart.rules.push_back({.on_reasons = {"Unhealthy"}, .action = api::RuleAction::kFail});
  s.sicken(1);
  s.accept();
  EXPECT_TRUE(s.is("Failed"));
}

TEST(DecideLeave, a_rule_that_counts_it_charges_it) {
  Gang s;
  s.job.spec.restart.rules.push_back({.on_reasons = {"Unhealthy"}});
  s.sicken(1);
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1U);
  EXPECT_TRUE(s.job.status.attempts[0].counted);
  EXPECT_EQ(s.job.status.restarts.charged, 1);
  EXPECT_EQ(s.job.status.restarts.counted, 1);
}

TEST(DecideLeave, an_event_says_why_a_sick_member_stays) {
  Gang s(0);
  s.sicken(1, 2s);
  EXPECT_FALSE(s.plan().notice) << "it may still get well";
  s.sicken(1);
  s.sicken(2);
  const auto note = [&] { return s.plan().notice ? s.plan().notice->note : ""; };
  const std::string stays = "pod a-abcd-1-1 stays on node node-1: nvidia.com/gpu GPU-0 is Unhealthy, but ";
  EXPECT_EQ(note(), stays + "no healthy spare is ready");
  s.shrinks_to(3);
  EXPECT_EQ(note(), stays + "no healthy spare is ready, and fewer than 3 members would stay");
  s.placing.emplace();
  EXPECT_EQ(note(), stays + "no healthy spare is ready, fewer than 3 members would stay, and no other node is free");
  s.shrinks_to(2);
  EXPECT_EQ(note(), "") << "it leaves";
}

TEST(DecideLeave, an_elastic_member_leaves_if_min_nodes_stay) {
  Gang s = Gang::elastic();
  s.sicken(2);
  EXPECT_EQ(s.leaves(), "a-abcd-2-1");
  s.job.spec.elastic->min_nodes = 3;
  EXPECT_EQ(s.leaves(), "");
}

TEST(DecideLeave, nobody_leaves_a_gang_that_could_not_go_on) {
  Gang s(0);
  s.sicken(1);
  EXPECT_EQ(s.leaves(), "");
  EXPECT_TRUE(s.plan().events.empty());
}

TEST(DecideLeave, without_a_spare_a_member_leaves_for_a_node_reserved_for_its_successor) {
  Gang s(0);
  s.sicken(1);
  placement::Answer& answer = s.placing.emplace().answer.emplace();
  answer.nodes = {{0, "node-0"}, {1, "node-1"}, {2, "node-2"}};
  EXPECT_EQ(s.leaves(), "") << "none is";
  answer.reserved = {{0, "node-9"}};
  EXPECT_EQ(s.leaves(), "") << "for another slot";
  answer.reserved = {{1, "node-9"}};
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1U);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-1-1");
  EXPECT_EQ(plan.deletes[0].grace_period_seconds, std::nullopt) << "it ends its step";
  EXPECT_EQ(s.job.status.restarts.total, 0);
  s.placing->answer->reserved.clear();
  s.placing->answer->nodes[1] = "node-9";
  s.placing->answer->gated = false;
  const Plan next = s.accept();
  ASSERT_EQ(next.creates.size(), 1U);
  EXPECT_EQ(next.creates[0].node, "node-9");
}

TEST(DecideLeave, a_member_that_alone_holds_the_state_stays_unless_a_checkpoint_is_saved) {
  for (const bool has_spare : {false, true}) {
    Gang s(has_spare ? 1 : 0);
    s.job.spec.nodes = 1;
    s.pods.erase(s.pods.begin() + 1, s.pods.begin() + 3);
    s.view->members.erase(s.view->members.begin() + 1, s.view->members.begin() + 3);
    if (has_spare) {
      s.pods.erase(s.pods.begin() + 1);
      s.view->members.pop_back();
      s.pod(1);
      s.view->members.push_back({1, 1, true});
    }
    s.view->world_size = 1;
    s.job.status.nodes.desired = 1;
    s.sicken(0);
    s.placing.emplace().answer.emplace().reserved = {{0, "node-9"}};
    EXPECT_EQ(s.leaves(), "") << has_spare;
    s.job.spec.checkpoint.path = "/checkpoint";
    EXPECT_EQ(s.leaves(), "a-abcd-0-1") << has_spare;
  }
}

struct Held {
  const char* why;
  void (*change)(Gang&);
};

class NobodyLeaves : public ::testing::TestWithParam<Held> {};

TEST_P(NobodyLeaves, while) {
  Gang s;
  s.sicken(1);
  ASSERT_EQ(s.leaves(), "a-abcd-1-1");
  GetParam().change(s);
  EXPECT_EQ(s.leaves(), "") << GetParam().why;
}

INSTANTIATE_TEST_SUITE_P(
    DecideLeave, NobodyLeaves,
    ::testing::Values(Held{"many nodes became sick together", [](Gang& s) { s.sicken(1).doubt = kDoubt; }},
                      Held{"the spare is sick as well",
                           [](Gang& s) {
                             s.sicken(3).age = 0s;  // it would go itself, later
                           }},
                      Held{"the spare is away", [](Gang& s) { s.view->members[3].connected = false; }},
                      Held{"the spare leaves", [](Gang& s) { s.view->members[3].leaving = true; }},
                      Held{"the spare was deleted, and still speaks", [](Gang& s) { s.go(3); }},
                      Held{"another member was deleted, and still trains", [](Gang& s) { s.go(2); }},
                      Held{"a generation forms", [](Gang& s) { s.see(Phase::kProposing, 2); }},
                      Held{"the leader is new", [](Gang& s) { s.settling = true; }},
                      Held{"nothing is known of the gang", [](Gang& s) { s.view.reset(); }},
                      Held{"the whole gang would restart",
                           [](Gang& s) { s.job.spec.restart.strategy = api::RestartStrategy::kGang; }},
                      Held{"a foreign program would restart",
                           [](Gang& s) { s.job.spec.rendezvous.kind = api::RendezvousKind::kTorch; }}),
    [](const auto& test) {
      std::string name = test.param.why;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == ' ' || c == ','; }, '_');
      return name;
    });

TEST(DecideLeave, a_young_sign_is_looked_at_again) {
  Gang s;
  s.sicken(1, 2s);
  const Plan plan = s.plan();
  EXPECT_TRUE(plan.deletes.empty());
  ASSERT_TRUE(plan.requeue_after);
  EXPECT_LE(*plan.requeue_after, kSignLasts - 2s);
}

TEST(DecideLeave, a_member_whose_sign_is_doubted_stays_and_an_event_says_why) {
  Gang s;
  s.sicken(1).doubt = s.sicken(2).doubt = kDoubt;
  const Plan plan = s.accept();
  EXPECT_TRUE(plan.deletes.empty() && plan.creates.empty() && plan.events.empty());
  ASSERT_TRUE(plan.notice);
  EXPECT_EQ(plan.notice->reason, "ManyNodesSick");
  EXPECT_EQ(plan.notice->note,
            "pod a-abcd-1-1 stays on node node-1: nvidia.com/gpu GPU-0 is Unhealthy, but more than 20 % of all nodes "
            "became sick together");
  EXPECT_TRUE(s.is("Running"));
  EXPECT_TRUE(s.job.status.attempts.empty());
}

TEST(DecideLeave, a_doubt_is_told_when_the_pod_would_have_left) {
  Gang s;
  s.sicken(1, 2s).doubt = kDoubt;
  const Plan plan = s.plan();
  EXPECT_FALSE(plan.notice);
  ASSERT_TRUE(plan.requeue_after);
  EXPECT_LE(*plan.requeue_after, kSignLasts - 2s);
  s.sicken(2).doubt = kDoubt;
  ASSERT_TRUE(s.plan().notice) << "a newer sign does not silence an older one";
  EXPECT_EQ(s.plan().notice->note.find("pod a-abcd-2-1 stays"), 0U);
}

TEST(DecideLeave, one_goes_after_the_other) {
  Gang s(2);
  s.sicken(0);
  s.sicken(2);
  s.accept();
  EXPECT_EQ(s.leaves(), "a-abcd-0-1") << "until it has gone";
  s.go(0);
  EXPECT_EQ(s.leaves(), "") << "the first is on its way";
  s.pods.erase(s.pods.begin());
  s.view->members.erase(s.view->members.begin());
  s.view->members.back().in_gang = true;
  EXPECT_EQ(s.leaves(), "a-abcd-2-1");
}

// Two members are sick, in the same failure domain or in two, in a job that could do without both.
struct TwoSick : Gang {
  TwoSick(const std::string& domain, const std::string& way) : Gang(way == "spares" ? 2 : 0) {
    for (int slot = 0; slot < 3; ++slot) {
      node(slot, true).path = {domain == "two_racks" ? fmt::format("rack-{}", slot) : "rack"};
    }
    if (domain == "one_node") pods[2].node_name = pods[0].node_name;
    if (way == "elastic") shrinks_to(1);
    if (way == "reserved") {
      placement::Answer& answer = placing.emplace().answer.emplace();
      for (int slot = 0; slot < 3; ++slot) answer.nodes[slot] = pods[static_cast<size_t>(slot)].node_name;
      answer.reserved = {{0, "node-8"}, {2, "node-9"}};
    }
    sicken(0);
    sicken(2);
  }
  // The pod of slot 0 is gone, and the coordinator does not know yet.
  void lose_first() { pods.erase(pods.begin()); }
  // The next generation, with a spare, the successor or one less.
  void go_on(const std::string& way) {
    view->members.erase(view->members.begin());
    if (way == "spares") view->members[2].in_gang = view->members[2].up = true;
    if (way == "reserved") {
      pod(0, 2).node_name = placing->answer->nodes[0] = "node-8";
      placing->answer->reserved.erase(0);
      view->members.insert(view->members.begin(), {0, 2, true, true, true});
    }
    see(Phase::kUp, 2);
  }
};

class OneAtATime : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(OneAtATime, members_leave_in_whatever_domains_they_are) {
  const auto& [domain, way] = GetParam();
  TwoSick s(domain, way);
  EXPECT_EQ(s.leaves(), "a-abcd-0-1");
  s.accept();
  EXPECT_EQ(s.leaves(), "a-abcd-0-1") << "its pod is not deleted yet";
  s.go(0);
  s.view->members[0].leaving = true;
  EXPECT_EQ(s.leaves(), "") << "it ends its step";
  s.lose_first();
  EXPECT_EQ(s.leaves(), "") << "the coordinator has not seen it end";
  s.view->members[0].leaving = false;
  EXPECT_EQ(s.leaves(), "") << "nor that it leaves";
  s.pod(0, 2).node_name = "node-8";
  EXPECT_EQ(s.leaves(), "") << "its successor is there before the next generation";
  s.pods.pop_back();
  s.see(Phase::kProposing, 2);
  EXPECT_EQ(s.leaves(), "") << "the next generation forms";
  s.go_on(way);
  EXPECT_EQ(s.leaves(), "a-abcd-2-1");
}

INSTANTIATE_TEST_SUITE_P(DecideLeave, OneAtATime,
                         ::testing::Combine(::testing::Values("two_racks", "one_rack", "one_node"),
                                            ::testing::Values("spares", "elastic", "reserved")),
                         [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param); });

TEST(DecideLeave, a_member_waits_for_a_spare_that_leaves) {
  Gang s(2);
  s.sicken(3);
  s.accept();
  s.go(3);
  s.sicken(0);
  EXPECT_EQ(s.leaves(), "");
  s.pods.erase(s.pods.begin() + 3);
  s.view->members.erase(s.view->members.begin() + 3);
  s.pod(3, 2).node_name = "node-9";
  s.view->members.insert(s.view->members.begin() + 3, {3, 2, true});
  EXPECT_EQ(s.leaves(), "a-abcd-0-1");
}

TEST(DecideLeave, nodes_that_were_left_long_ago_or_for_no_sign_do_not_count) {
  const auto entry = [](api::SlotTrouble trouble, const char* node, Duration ago) {
    return api::SlotStatus{.trouble = trouble, .node = node, .since = kStart - ago};
  };
  using api::SlotTrouble;
  EXPECT_EQ(nodes_left({entry(SlotTrouble::kUnhealthy, "a", 9min), entry(SlotTrouble::kUnhealthy, "b", 10min),
                        entry(SlotTrouble::kPartitioned, "c", 1min)},
                       kStart),
            1U);
}

TEST(DecideLeave, a_job_that_keeps_moving_says_how_many_nodes_it_left) {
  for (const Duration later : {Duration(0s), Duration(10min)}) {
    TwoSick s("two_racks", "spares");
    s.accept();
    s.lose_first();
    s.go_on("spares");
    s.now += later;
    s.accept();
    const auto& attempts = s.job.status.attempts;
    ASSERT_EQ(attempts.size(), 2U);
    EXPECT_EQ(attempts[0].message, "pod a-abcd-0-1 leaves node node-0: nvidia.com/gpu GPU-0 is Unhealthy");
    EXPECT_EQ(attempts[1].message, std::string("pod a-abcd-2-1 leaves node node-2: nvidia.com/gpu GPU-0 is Unhealthy") +
                                       (later == 0s ? "; the job left 2 nodes within ten minutes" : ""));
    EXPECT_FALSE(attempts[1].counted);
  }
}

TEST(DecideLeave, two_pods_of_one_node_are_one_node_that_was_left) {
  TwoSick s("one_node", "spares");
  s.accept();
  s.lose_first();
  s.go_on("spares");
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 2U);
  EXPECT_EQ(s.job.status.attempts[1].message, "pod a-abcd-2-1 leaves node node-0: nvidia.com/gpu GPU-0 is Unhealthy");
}

// The spare of slot 3 has taken the place of the pod of slot 1, whose successor waits on the same node.
struct CameBack : Gang {
  CameBack() {
    sicken(1);
    accept();
    pods.erase(pods.begin() + 1);
    pod(1, 2);
    see(Phase::kUp, 2);
    connect();
    for (auto& member : view->members) member.in_gang = member.up = member.slot != 1;
    accept();
    sicken(3);  // it is the last of the list
  }
};

TEST(DecideLeave, a_successor_that_found_no_other_node_stays_there_for_ten_minutes) {
  CameBack s;
  ASSERT_EQ(s.pods[3].meta.name, "a-abcd-1-2");
  const Plan plan = s.plan();
  EXPECT_TRUE(plan.deletes.empty() && plan.creates.empty());
  ASSERT_TRUE(plan.requeue_after);
  EXPECT_LE(*plan.requeue_after, 10min);
  s.now += 10min;
  EXPECT_EQ(s.leaves(), "a-abcd-1-2");
}

TEST(DecideLeave, the_next_pod_of_the_same_node_leaves_it_too) {
  Gang s(2);
  s.pods[2].node_name = s.pods[1].node_name;
  s.sicken(1);
  s.sicken(2);
  s.accept();
  s.pods.erase(s.pods.begin() + 1);
  s.connect();
  EXPECT_EQ(s.leaves(), "a-abcd-2-1");
}

TEST(DecideLeave, no_more_entries_are_stored_than_the_api_server_takes) {
  Gang s;
  s.job.status.slots.emplace();
  for (int i = 0; i < 64; ++i) {
    s.job.status.slots->push_back(
        {.slot = 9, .trouble = api::SlotTrouble::kPartitioned, .node = "far", .since = s.now});
  }
  s.sicken(1);
  s.accept();
  EXPECT_EQ(s.job.status.slots->size(), 64U);
  EXPECT_EQ(s.job.status.slots->back().pod, "a-abcd-1-1");
}

TEST(DecideLeave, a_crash_before_the_delete_repeats_it_and_tells_nothing_twice) {
  Gang s;
  s.sicken(1);
  s.accept();
  const Plan again = s.accept();
  EXPECT_EQ(again.deletes.size(), 1U);
  EXPECT_TRUE(again.events.empty());
  EXPECT_EQ(s.job.status.slots->size(), 1U);
}

TEST(DecideLeave, a_process_that_fails_in_a_sick_pod_is_not_started_there_again) {
  for (const Cause cause : {Cause::kProcessExit, Cause::kProcessSignal, Cause::kHang}) {
    for (const int spares : {0, 1}) {
      Gang s(spares);
      s.sicken(1, 0s);
      s.broken(1, cause, 1, 75);
      const Plan plan = s.accept();
      ASSERT_EQ(s.job.status.attempts.size(), 1U);
      const auto& attempt = s.job.status.attempts[0];
      EXPECT_EQ(attempt.cause, Cause::kUnhealthy);
      EXPECT_FALSE(attempt.counted);
      EXPECT_EQ(attempt.strategy, api::Strategy::kReplaceFailed);
      EXPECT_EQ(attempt.message, "pod a-abcd-1-1 leaves node node-1: nvidia.com/gpu GPU-0 is Unhealthy; " +
                                     reason_of(cause) + " of slot 1");
      EXPECT_EQ(attempt.exit_code, 75);
      EXPECT_EQ(s.job.status.restarts.charged, 0);
      ASSERT_EQ(plan.deletes.size(), 1U);
      EXPECT_EQ(plan.deletes[0].name, "a-abcd-1-1");
      EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{1, 2, {"node-1"}}}));
      EXPECT_EQ(plan.coordinator->handled_generation, 1);
      EXPECT_TRUE(plan.coordinator->members[1].leaving) << "it is in no further generation";
    }
  }
}

TEST(DecideLeave, with_strategy_gang_a_process_that_fails_in_a_sick_pod_is_free) {
  Gang s(0);
  s.job.spec.restart.strategy = api::RestartStrategy::kGang;
  s.sicken(1, 0s);
  s.broken(1, Cause::kProcessExit, 1, 75);
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1U);
  EXPECT_EQ(s.job.status.attempts[0].cause, Cause::kUnhealthy);
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kGang);
  EXPECT_FALSE(s.job.status.attempts[0].counted);
  EXPECT_EQ(plan.deletes.size(), 3U);
  ASSERT_EQ(plan.creates.size(), 3U);
  EXPECT_EQ(plan.creates[1].avoid_nodes, std::vector<std::string>{"node-1"});
}

TEST(DecideLeave, the_successor_of_a_pod_that_failed_while_sick_is_no_attempt) {
  Gang s(0);
  s.sicken(1, 0s);
  s.broken(1, Cause::kProcessExit, 1, 75);
  s.accept();
  EXPECT_EQ(s.accept().deletes.size(), 1U) << "a crash before the delete repeats it";
  s.go(1);
  s.accept();
  s.pods.erase(s.pods.begin() + 1);
  s.view->members.erase(s.view->members.begin() + 1);
  EXPECT_EQ(s.accept().creates.size(), 1U);
  s.pod(1, 2).node_name = "node-9";
  s.accept();
  s.see(Phase::kUp, 2);
  s.connect();
  s.accept();
  EXPECT_EQ(s.job.status.attempts.size(), 1U);
  EXPECT_TRUE(s.is("Running"));
}

TEST(DecideLeave, a_program_that_makes_one_node_after_the_other_sick_is_charged) {
  Gang s(0);
  s.sicken(1, 0s);
  s.broken(1, Cause::kProcessExit, 1, 75);
  s.accept();
  s.pods.erase(s.pods.begin() + 1);
  s.view->members.erase(s.view->members.begin() + 1);
  s.sick_pods.clear();
  s.pod(1, 2).node_name = "node-9";
  s.accept();
  s.see(Phase::kUp, 2);
  s.connect();
  s.accept();
  s.sick_pods["a-abcd-1-2"] = {kSign, 0s};
  s.broken(2, Cause::kProcessExit, 1, 75);
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 2U);
  EXPECT_EQ(s.job.status.attempts[1].cause, Cause::kProcessExit);
  EXPECT_TRUE(s.job.status.attempts[1].counted);
}

TEST(DecideLeave, a_process_that_fails_is_the_jobs_fault_unless_the_sign_is_sure) {
  const std::pair<const char*, void (*)(Gang&)> table[] = {
      {"no sign", [](Gang& s) { s.sick_pods.clear(); }},
      {"a doubted sign", [](Gang& s) { s.sicken(1).doubt = kDoubt; }},
      {"the sign of another pod",
       [](Gang& s) {
         s.sick_pods.clear();
         s.sicken(2);
       }},
  };
  for (const auto& [what, change] : table) {
    Gang s;
    s.sicken(1);
    change(s);
    s.broken(1, Cause::kProcessExit, 1, 75);
    s.accept();
    ASSERT_EQ(s.job.status.attempts.size(), 1U) << what;
    EXPECT_EQ(s.job.status.attempts[0].cause, Cause::kProcessExit) << what;
    EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kInPlace) << what;
    EXPECT_TRUE(s.job.status.attempts[0].counted) << what;
  }
}

TEST(DecideLeave, a_process_that_fails_on_the_only_node_that_had_room_is_charged) {
  CameBack s;
  const auto before = s.job.status.attempts.size();
  for (auto& member : s.view->members) member.in_gang = member.up = member.slot != 3;
  s.broken(2, Cause::kProcessExit, 1, 75);
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), before + 1);
  EXPECT_EQ(s.job.status.attempts.back().pod, "a-abcd-1-2");
  EXPECT_EQ(s.job.status.attempts.back().cause, Cause::kProcessExit);
  EXPECT_TRUE(s.job.status.attempts.back().counted);
}

TEST(DecideLeave, a_sick_spare_is_replaced_though_no_other_is_there) {
  Gang s;
  s.sicken(3);
  EXPECT_EQ(s.leaves(), "a-abcd-3-1");
  const Plan plan = s.accept();
  ASSERT_EQ(plan.creates.size(), 1U);
  EXPECT_EQ(plan.creates[0].slot, 3);
}

}  // namespace
}  // namespace lockstep::job::decide_leave_test
