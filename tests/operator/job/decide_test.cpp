// One decision at a time: what is planned for a situation, from the first look at a job to its end.
#include "operator/job/decide.h"

#include <gtest/gtest.h>

#include "operator/job/restart_policy.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_test {
namespace {

using namespace std::chrono_literals;
using rendezvous::Phase;

TEST(Decide, the_plan_that_creates_pods_stores_their_incarnation_first) {
  Situation s(3);
  s.service = false;
  const Plan plan = s.accept();
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->incarnation, 1);
  EXPECT_EQ(plan.service, ServiceStep::kLook);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_TRUE(plan.deletes.empty());
  ASSERT_TRUE(plan.coordinator);
  EXPECT_EQ(plan.coordinator->slots, 3);
  EXPECT_EQ(plan.coordinator->handled_generation, 0);
  EXPECT_EQ(s.job.status.state, "Pending");
  EXPECT_EQ(s.job.status.world_size, 3);
  EXPECT_EQ(s.job.status.conditions.size(), 6u);
  for (const auto& condition : s.job.status.conditions) EXPECT_FALSE(condition.reason.empty()) << condition.type;
}

TEST(Decide, members_are_the_pods_that_exist) {
  Situation s(2);
  s.accept();
  s.pod(1);
  const Plan plan = s.accept();
  ASSERT_EQ(plan.coordinator->members.size(), 1u);
  EXPECT_EQ(plan.coordinator->members[0].pod_uid, "uid-1-1");
  EXPECT_EQ(plan.coordinator->members[0].node, "node-1");
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{0, 1}}));
}

TEST(Decide, a_generation_that_is_up_makes_the_job_running) {
  Situation s(2, 4);
  s.running();
  EXPECT_TRUE(s.is("Running"));
  EXPECT_TRUE(s.is("Placed"));
  EXPECT_EQ(s.job.status.state, "Running");
  EXPECT_EQ(s.job.status.nodes.summary, "2/2");
  EXPECT_EQ(s.job.status.world_size, 8);
  EXPECT_EQ(s.job.status.membership_generation, 1);
  EXPECT_EQ(s.job.status.start_time, kStart);
}

TEST(Decide, nothing_new_means_nothing_written) {
  Situation s;
  s.running();
  s.now += 1h;
  const Plan plan = s.plan();
  EXPECT_FALSE(plan.status);
  EXPECT_TRUE(plan.creates.empty() && plan.deletes.empty() && plan.events.empty() &&
              plan.service == ServiceStep::kNone);
  EXPECT_FALSE(plan.requeue_after);
}

TEST(Decide, a_process_that_dies_is_restarted_in_place) {
  Situation s;
  s.running();
  s.now += 10s;
  s.broken(1, api::Cause::kProcessSignal, 1, 137).signal = 9;
  const Plan plan = s.accept();
  ASSERT_TRUE(plan.status);
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  const auto& attempt = s.job.status.attempts[0];
  EXPECT_EQ(attempt.generation, 1);
  EXPECT_EQ(attempt.cause, api::Cause::kProcessSignal);
  EXPECT_EQ(attempt.exit_code, 137);
  EXPECT_EQ(attempt.strategy, api::Strategy::kInPlace);
  EXPECT_EQ(attempt.pod, "a-abcd-1-1");
  EXPECT_EQ(attempt.node, "node-1");
  EXPECT_EQ(attempt.first_failing_rank, 1);
  EXPECT_TRUE(attempt.counted);
  EXPECT_EQ(plan.coordinator->handled_generation, 1);
  EXPECT_TRUE(plan.creates.empty() && plan.deletes.empty()) << "pods stay";
  EXPECT_EQ(s.job.status.incarnation, 1);
  EXPECT_EQ(s.job.status.state, "Restarting");
  EXPECT_EQ(s.job.status.restarts.total, 1);
  EXPECT_EQ(s.job.status.restarts.counted, 1);
  EXPECT_EQ(s.job.status.restarts.last_cause, api::Cause::kProcessSignal);
}

TEST(Decide, an_attempt_is_written_once_however_often_the_failure_is_seen) {
  Situation s;
  s.running();
  s.broken(1, api::Cause::kProcessSignal, 1, 137);
  s.accept();
  const Plan again = s.accept();
  EXPECT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(again.coordinator->handled_generation, 1);
  s.see(Phase::kWaiting, 1);
  s.accept();
  s.see(Phase::kProposing, 2);
  s.accept();
  s.see(Phase::kStarting, 2);
  s.accept();
  EXPECT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.state, "Restarting");
}

TEST(Decide, a_recovery_ends_restarting_and_tells_its_milliseconds) {
  Situation s;
  s.running();
  s.broken(1, api::Cause::kProcessSignal, 1, 137).detect_ms = 7;
  s.accept();
  s.see(Phase::kUp, 2).times = {
      .after = 1, .into = 2, .agree_ms = 20, .decide_ms = 15, .abort_ms = 4, .record_ms = 5, .start_ms = 300};
  const Plan plan = s.accept();
  EXPECT_EQ(s.job.status.state, "Running");
  EXPECT_FALSE(s.is("Restarting"));
  ASSERT_EQ(plan.events.size(), 1u);
  EXPECT_EQ(plan.events[0].reason, "Recovered");
  s.view->times.init_ms = 200;  // may come a moment after the first word that all are up
  s.view->times.transfer_ms = 90;
  s.view->times.first_step_ms = 40;
  s.accept();
  const auto& attempt = s.job.status.attempts[0];
  EXPECT_EQ(attempt.detect_ms, 7);
  EXPECT_EQ(attempt.agree_ms, 20);
  EXPECT_EQ(attempt.decide_ms, 15);
  EXPECT_EQ(attempt.abort_ms, 4);
  EXPECT_EQ(attempt.record_ms, 5);
  EXPECT_EQ(attempt.start_ms, 300);
  EXPECT_EQ(attempt.init_ms, 200);
  EXPECT_EQ(attempt.transfer_ms, 90);
  EXPECT_EQ(attempt.first_step_ms, 40);
  EXPECT_EQ(s.job.status.membership_generation, 2);
}

TEST(Decide, the_milliseconds_of_a_recovery_go_to_the_attempt_that_it_followed) {
  Situation s;
  s.running();
  s.broken(1, api::Cause::kProcessSignal, 1, 137);
  s.accept();
  s.see(Phase::kUp, 2).times = {.after = 0, .agree_ms = 20, .start_ms = 300, .first_step_ms = 40};
  s.accept();
  EXPECT_EQ(s.job.status.attempts[0].agree_ms, -1);
  s.see(Phase::kUp, 3).times = {.after = 1, .agree_ms = 21, .start_ms = 301, .first_step_ms = 41};
  s.accept();
  EXPECT_EQ(s.job.status.attempts[0].agree_ms, 21);
  EXPECT_EQ(s.job.status.attempts[0].start_ms, 301);
  EXPECT_EQ(s.job.status.attempts[0].first_step_ms, 41);
}

TEST(Decide, a_second_failure_without_progress_waits_before_it_is_passed_on) {
  Situation s;
  s.job.spec.restart.backoff_initial_seconds = 8;
  s.running();
  s.broken(1, api::Cause::kProcessSignal, 1, 137);
  EXPECT_EQ(s.accept().coordinator->handled_generation, 1) << "the first is immediate";
  s.see(Phase::kUp, 2);
  s.accept();
  s.broken(2, api::Cause::kProcessSignal, 1, 137);
  const Plan held = s.accept();
  EXPECT_EQ(s.job.status.attempts.size(), 2u) << "the attempt is known at once";
  EXPECT_EQ(held.coordinator->handled_generation, 1);
  EXPECT_EQ(held.requeue_after, 8s);
  s.now += 8s;
  EXPECT_EQ(s.accept().coordinator->handled_generation, 2);
}

TEST(Decide, replicas_that_differed_are_told_of_once) {
  Situation s;
  s.running();
  s.see(Phase::kUp, 2).divergence = "generation 2: rank 1 holds other bits";
  const Plan plan = s.accept();
  EXPECT_TRUE(s.is("ReplicaDivergence"));
  EXPECT_EQ(s.condition("ReplicaDivergence")->message, "generation 2: rank 1 holds other bits");
  EXPECT_EQ(std::count_if(plan.events.begin(), plan.events.end(),
                          [](const auto& event) { return event.reason == "ReplicaDivergence"; }),
            1);
  EXPECT_TRUE(s.accept().events.empty());
  s.view->divergence.clear();  // another leader does not know of it
  s.accept();
  EXPECT_TRUE(s.is("ReplicaDivergence")) << "it stays to be read";
}

TEST(Decide, a_deleted_pod_is_replaced_under_the_next_incarnation) {
  Situation s(3);
  s.running();
  s.pods[1].meta.deleted = s.now + 30s;
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPodDeleted);
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kReplaceFailed);
  EXPECT_FALSE(s.job.status.attempts[0].counted);
  EXPECT_EQ(s.job.status.incarnation, 2);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{1, 2}}));
  EXPECT_TRUE(plan.deletes.empty()) << "it is going away already";
  EXPECT_EQ(plan.coordinator->handled_generation, 1);
  EXPECT_EQ(plan.coordinator->members.size(), 2u);
  EXPECT_FALSE(s.is("Placed"));

  const Plan again = s.accept();
  EXPECT_FALSE(again.status) << "the loss was dealt with";
  EXPECT_EQ(again.creates, (std::vector<PodToCreate>{{1, 2}})) << "until it exists";
  s.pod(1, 2, "Pending");
  EXPECT_TRUE(s.accept().creates.empty());
  EXPECT_EQ(s.job.status.attempts.size(), 1u);
}

TEST(Decide, a_pod_that_vanished_unseen_is_a_loss_too) {
  Situation s;
  s.running();
  s.pods.erase(s.pods.begin());
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPodDeleted);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{0, 2}}));
}

TEST(Decide, a_failed_pod_is_deleted_and_replaced_and_names_its_exit_code) {
  Situation s;
  s.running();
  s.pods[1].phase = "Failed";
  s.pods[1].containers = {{.name = "trainer", .terminated = true, .exit_code = 137, .terminated_reason = "OOMKilled"}};
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kOomKilled);
  EXPECT_EQ(s.job.status.attempts[0].exit_code, 137);
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].uid, "uid-1-1");
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{1, 2}}));
}

TEST(Decide, a_preempted_pod_is_not_the_jobs_fault) {
  Situation s;
  s.running();
  s.pods[1].meta.deleted = s.now;
  s.pods[1].disruption_reason = "PreemptionByScheduler";
  s.accept();
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kPreempted);
  EXPECT_FALSE(s.job.status.attempts[0].counted);
}

TEST(Decide, a_pod_that_is_evicted_for_the_taint_of_its_device_is_not_charged) {
  Situation s;
  s.running();
  s.pods[1].meta.deleted = s.now;
  s.pods[1].disruption_reason = "DeletionByDeviceTaintManager";
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kEvicted);
  EXPECT_FALSE(s.job.status.attempts[0].counted);
}

TEST(Decide, the_first_round_goes_on_where_a_crash_left_it) {
  Situation s(3);
  s.accept();
  s.pod(2, 1, "Pending").node_name.clear();
  EXPECT_EQ(s.accept().creates, (std::vector<PodToCreate>{{0, 1}, {1, 1}}));
  EXPECT_TRUE(s.job.status.attempts.empty());
}

TEST(Decide, with_strategy_gang_every_pod_is_recreated) {
  Situation s(3);
  s.job.spec.restart.strategy = api::RestartStrategy::kGang;
  s.running();
  s.broken(1, api::Cause::kProcessSignal, 2, 139);
  const Plan plan = s.accept();
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kGang);
  EXPECT_EQ(s.job.status.incarnation, 2);
  EXPECT_EQ(plan.deletes.size(), 3u);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{0, 2}, {1, 2}, {2, 2}}));
  EXPECT_TRUE(plan.coordinator->members.empty());
  const Plan again = s.accept();
  EXPECT_FALSE(again.status);
  EXPECT_EQ(again.deletes.size(), 3u) << "a crash after the status changes nothing";
  EXPECT_EQ(again.creates, (std::vector<PodToCreate>{{0, 2}, {1, 2}, {2, 2}}));
}

TEST(Decide, a_dead_nodes_pod_is_lost_and_then_removed_by_force) {
  Situation s;
  s.job.spec.restart.force_delete_after_seconds = 5;
  s.running();
  s.node(0, true);
  s.node(1, false);
  s.view->members[1].connected = false;
  s.broken(1, api::Cause::kMemberLost, 1);
  const Plan plan = s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kNodeLost);
  EXPECT_EQ(s.job.status.attempts[0].node, "node-1");
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].grace_period_seconds, 5);
  EXPECT_EQ(plan.creates, (std::vector<PodToCreate>{{1, 2}}));
  s.pods[1].meta.deleted = s.now + 5s;
  const Plan waiting = s.accept();
  EXPECT_TRUE(waiting.deletes.empty());
  EXPECT_EQ(waiting.requeue_after, 5s);
  s.now += 5s;
  const Plan forced = s.accept();
  ASSERT_EQ(forced.deletes.size(), 1u);
  EXPECT_EQ(forced.deletes[0].grace_period_seconds, 0);
}

TEST(Decide, the_rank_of_a_lost_pod_is_the_one_that_it_had_in_its_generation) {
  Situation s;
  s.job.spec.procs_per_node = 2;
  s.running();
  s.view->world_size = 6;
  s.view->places = {{2, 1}, {1, 1}, {0, 1}};
  s.pods[0].phase = "Failed";
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].pod, "a-abcd-0-1");
  EXPECT_EQ(s.job.status.attempts[0].first_failing_rank, 4);
}

TEST(Decide, a_pod_that_is_lost_before_the_first_generation_has_no_rank) {
  Situation s;
  s.running();
  s.view->places.clear();
  s.pods[0].phase = "Failed";
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].first_failing_rank, -1);
}

TEST(Decide, the_domains_of_the_node_reach_the_plan) {
  Situation s;
  s.running();
  s.node(1, true).path = {"block", "rack"};
  const Plan plan = s.accept();
  ASSERT_TRUE(plan.coordinator);
  EXPECT_EQ(plan.coordinator->members.at(1).path, (std::vector<std::string>{"block", "rack"}));
  EXPECT_TRUE(plan.coordinator->members.at(0).path.empty());
}

TEST(Decide, a_node_that_is_called_not_ready_while_its_member_speaks_is_left_alone) {
  Situation s;
  s.running();
  s.node(1, false);
  EXPECT_FALSE(s.plan().status);
}

// Its connection may have broken just now, while the kubelet is away; the others would stand still without it.
TEST(Decide, the_coordinator_alone_says_that_a_silent_member_is_lost) {
  Situation s;
  s.running();
  s.node(1, false);
  s.view->members[1].connected = false;
  const Plan plan = s.plan();
  EXPECT_FALSE(plan.status);
  EXPECT_TRUE(plan.requeue_after);
  s.broken(1, api::Cause::kMemberLost, 1);
  s.accept();
  EXPECT_EQ(s.job.status.attempts.at(0).cause, api::Cause::kNodeLost);
  EXPECT_EQ(s.job.status.attempts.at(0).message, "node node-1 of pod a-abcd-1-1 is not ready; MemberLost of slot 1");
}

// After an API server that was away all nodes are called not ready, and no agent finds the new leader for a while.
TEST(Decide, a_gang_that_has_not_found_the_new_leader_is_not_lost) {
  Situation s;
  s.running();
  for (int slot = 0; slot < 2; ++slot) {
    s.node(slot, false);
    s.view->members[static_cast<size_t>(slot)].connected = false;
  }
  s.reconnecting = true;
  const Plan plan = s.plan();
  EXPECT_FALSE(plan.status);
  EXPECT_TRUE(plan.deletes.empty());
  EXPECT_TRUE(plan.requeue_after);
  s.reconnecting = false;
  s.accept();
  EXPECT_EQ(s.job.status.attempts.at(0).cause, api::Cause::kNodeLost);
}

TEST(Decide, nor_is_one_that_was_not_whole_when_the_old_leader_went) {
  Situation s;
  s.running();
  set_condition(s.snapshot(), s.job.status, "Placed", false, "PodsPending", "");
  for (int slot = 0; slot < 2; ++slot) {
    s.node(slot, false);
    s.view->members[static_cast<size_t>(slot)].connected = false;
  }
  s.reconnecting = true;
  const Plan plan = s.accept();
  EXPECT_TRUE(s.job.status.attempts.empty());
  EXPECT_TRUE(plan.deletes.empty());
}

TEST(Decide, a_pod_that_has_not_begun_has_a_grace_when_its_node_is_silent) {
  Situation s;
  s.see(Phase::kWaiting, 0);
  s.accept();
  s.pod(0);
  s.pod(1, 1, "Pending").meta.created = s.now;
  s.connect();
  s.view->members[1].connected = false;
  s.node(1, false);
  EXPECT_TRUE(s.accept().deletes.empty());
  s.now += 11s;
  s.accept();
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].cause, api::Cause::kNodeLost);
}

TEST(Decide, without_word_from_the_coordinator_no_failure_is_judged) {
  Situation s;
  s.running();
  s.view.reset();
  s.pods[0].meta.deleted = s.now;
  const Plan plan = s.plan();
  EXPECT_TRUE(s.job.status.attempts.empty());
  EXPECT_TRUE(plan.creates.empty());
  EXPECT_TRUE(plan.coordinator) << "it has to be told about the job first";
}

TEST(Decide, a_silent_member_waits_for_word_of_its_pod) {
  Situation s;
  s.running();
  s.broken(1, api::Cause::kMemberLost, 1).time = s.now;
  s.view->members[1].connected = false;
  const Plan plan = s.accept();
  EXPECT_TRUE(s.job.status.attempts.empty());
  EXPECT_EQ(plan.coordinator->handled_generation, 0);
  EXPECT_EQ(s.job.status.state, "Restarting");
  EXPECT_EQ(s.reason("Restarting"), "MemberLost");
  EXPECT_EQ(plan.requeue_after, 12s);
  EXPECT_FALSE(s.plan().status) << "said once";

  Situation pod_fails = s;
  pod_fails.pods[1].phase = "Failed";
  pod_fails.accept();
  ASSERT_EQ(pod_fails.job.status.attempts.size(), 1u);
  EXPECT_EQ(pod_fails.job.status.attempts[0].cause, api::Cause::kPodFailed);
  EXPECT_EQ(pod_fails.job.status.attempts[0].generation, 1);

  Situation node_dies = s;
  node_dies.node(1, false);
  node_dies.accept();
  ASSERT_EQ(node_dies.job.status.attempts.size(), 1u);
  EXPECT_EQ(node_dies.job.status.attempts[0].cause, api::Cause::kNodeLost);

  Situation comes_back = s;
  comes_back.view->members[1].connected = true;
  comes_back.accept();
  EXPECT_TRUE(comes_back.job.status.attempts.empty()) << "nobody has closed a connection to a dead machine yet";
  comes_back.now += 12s;
  comes_back.accept();
  ASSERT_EQ(comes_back.job.status.attempts.size(), 1u);
  EXPECT_EQ(comes_back.job.status.attempts[0].cause, api::Cause::kMemberLost);
  EXPECT_EQ(comes_back.job.status.attempts[0].strategy, api::Strategy::kInPlace);

  Situation stays_silent = s;
  stays_silent.now += 60s;
  const Plan last = stays_silent.accept();
  ASSERT_EQ(last.deletes.size(), 1u);
  EXPECT_EQ(last.deletes[0].name, "a-abcd-1-1");
}

TEST(Decide, a_stopped_process_waits_a_moment_for_the_reason_of_the_stop) {
  Situation s;
  s.running();
  auto& failure = s.broken(1, api::Cause::kStopped, 1, 83);
  failure.time = s.now - 200ms;
  const Plan plan = s.accept();
  EXPECT_TRUE(s.job.status.attempts.empty());
  EXPECT_EQ(plan.requeue_after, 800ms);
  Situation deleted = s;
  deleted.pods[1].meta.deleted = s.now;
  deleted.accept();
  EXPECT_EQ(deleted.job.status.attempts.at(0).cause, api::Cause::kPodDeleted);
  s.now += 1s;
  s.accept();
  EXPECT_EQ(s.job.status.attempts.at(0).cause, api::Cause::kStopped);
  EXPECT_FALSE(s.job.status.attempts[0].counted);
}

TEST(Decide, an_own_failure_is_judged_before_a_pod_that_was_deleted_elsewhere) {
  Situation s;
  s.running();
  s.broken(1, api::Cause::kProcessExit, 0, 65);
  s.pods[1].meta.deleted = s.now;
  s.accept();
  EXPECT_TRUE(s.is("Failed"));
  EXPECT_EQ(s.reason("Failed"), "PermanentExitCode");
}

TEST(Decide, a_permanent_failure_ends_the_job_with_its_attempt) {
  Situation s;
  s.running();
  s.broken(1, api::Cause::kProcessExit, 0, 65).message = "data.txt is empty\nmore";
  const Plan plan = s.accept();
  EXPECT_TRUE(s.is("Failed"));
  EXPECT_FALSE(s.is("Running"));
  EXPECT_EQ(s.job.status.state, "Failed");
  EXPECT_EQ(s.job.status.completion_time, s.now);
  ASSERT_EQ(s.job.status.attempts.size(), 1u);
  EXPECT_EQ(s.job.status.attempts[0].strategy, api::Strategy::kNothing);
  EXPECT_NE(s.condition("Failed")->message.find("data.txt is empty"), std::string::npos);
  ASSERT_FALSE(plan.events.empty());
  EXPECT_TRUE(plan.events.back().warning);
  const Plan after = s.accept();
  ASSERT_TRUE(after.coordinator);
  EXPECT_TRUE(after.coordinator->stop);
  EXPECT_FALSE(after.status);
}

TEST(Decide, the_budget_ends_the_job) {
  Situation s;
  s.job.spec.restart.max_restarts = 1;
  s.running();
  s.broken(1, api::Cause::kProcessSignal, 0, 137);
  s.accept();
  s.see(Phase::kUp, 2);
  s.accept();
  s.broken(2, api::Cause::kProcessSignal, 0, 137);
  s.accept();
  EXPECT_EQ(s.reason("Failed"), "RestartBudgetExceeded");
}

TEST(Decide, every_rank_done_means_succeeded) {
  Situation s;
  s.running();
  s.now += 5s;
  s.see(Phase::kFinished, 1);
  s.accept();
  EXPECT_TRUE(s.is("Succeeded"));
  EXPECT_EQ(s.job.status.state, "Succeeded");
  EXPECT_EQ(s.job.status.attempts.at(0).cause, api::Cause::kCompleted);
  EXPECT_EQ(s.job.status.completion_time, s.now);
}

TEST(Decide, a_controller_that_took_over_sees_success_by_the_pods) {
  Situation s;
  s.running();
  s.view.reset();
  for (auto& pod : s.pods) pod.phase = "Succeeded";
  s.accept();
  EXPECT_TRUE(s.is("Succeeded"));
}

TEST(Decide, taking_over_a_running_job_changes_nothing) {
  Situation s;
  s.running();
  s.settling = true;
  s.view.reset();
  EXPECT_FALSE(s.plan().status);
  s.see(Phase::kWaiting, 1);
  EXPECT_FALSE(s.plan().status);
  s.see(Phase::kStarting, 1);
  EXPECT_FALSE(s.plan().status);
  s.see(Phase::kUp, 1);
  EXPECT_FALSE(s.plan().status);
}

TEST(Decide, active_seconds_end_the_job) {
  Situation s;
  s.job.spec.deadlines.active_seconds = 100;
  s.running();
  EXPECT_EQ(s.plan().requeue_after, 100s);
  s.now += 100s;
  s.accept();
  EXPECT_EQ(s.reason("Failed"), "DeadlineExceeded");
}

TEST(Decide, a_job_that_is_being_deleted_creates_nothing) {
  Situation s;
  s.running();
  s.job.meta.deleted = s.now;
  s.pods.clear();
  const Plan plan = s.plan();
  EXPECT_TRUE(plan.creates.empty());
  EXPECT_FALSE(plan.status);
  EXPECT_TRUE(plan.coordinator->stop);
}

TEST(Decide, leftovers_go) {
  Situation s(2);
  s.running();
  s.pod(1, 2);
  s.job.status.incarnation = 2;
  s.pod(5, 1);
  const Plan plan = s.plan();
  ASSERT_EQ(plan.deletes.size(), 2u);
  EXPECT_EQ(plan.deletes[0].name, "a-abcd-1-1");
  EXPECT_EQ(plan.deletes[1].name, "a-abcd-5-1");
}

}  // namespace
}  // namespace lockstep::job::decide_test
