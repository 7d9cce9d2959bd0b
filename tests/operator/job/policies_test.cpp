// Why a job does not start, how it stops, and what is left of it. Tested are startup, suspend and finish policies, and
// when a status is worth a write.
#include <gtest/gtest.h>

#include "operator/job/finish_policy.h"
#include "operator/job/slot_troubles.h"
#include "operator/job/startup_policy.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job::policies_test {
namespace {

using namespace std::chrono_literals;
using rendezvous::Phase;

// ---- startup ----

TEST(StartupPolicy, a_kubelets_refusal_is_the_reason_and_fails_at_the_deadline) {
  struct Row {
    const char* kubelet;
    const char* reason;
    bool permanent;
  };
  const Row rows[] = {
      {"ErrImagePull", "ImagePullBackOff", false},
      {"ImagePullBackOff", "ImagePullBackOff", false},
      {"InvalidImageName", "InvalidImageName", true},
      {"ErrImageNeverPull", "ErrImageNeverPull", false},
      {"CreateContainerConfigError", "CreateContainerConfigError", false},
      {"CreateContainerError", "CreateContainerError", false},
      {"RunContainerError", "RunContainerError", false},
  };
  for (const auto& row : rows) {
    Situation s;
    s.accept();
    s.pod(0, 1, "Pending").containers = {
        {.name = "trainer", .waiting_reason = row.kubelet, .waiting_message = "because"}};
    s.pod(1);
    const Plan plan = s.accept();
    const char* where = row.permanent ? "Failed" : "Running";
    EXPECT_EQ(s.reason(where), row.reason) << row.kubelet;
    EXPECT_EQ(s.condition(where)->message, "container trainer of pod a-abcd-0-1 cannot start: because") << row.kubelet;
    EXPECT_FALSE(plan.events.empty()) << row.kubelet;
    if (row.permanent) continue;
    EXPECT_FALSE(s.plan().status) << "said once: " << row.kubelet;
    s.now += 600s;
    s.accept();
    EXPECT_TRUE(s.is("Failed")) << row.kubelet;
    EXPECT_EQ(s.reason("Failed"), row.reason) << row.kubelet;
  }
}

TEST(StartupPolicy, the_turns_of_a_failing_pull_write_nothing) {
  Situation s(1);
  s.accept();
  auto& container = s.pod(0, 1, "Pending").containers.emplace_back();
  container = {.name = "trainer", .waiting_reason = "ErrImagePull", .waiting_message = "no such host"};
  s.accept();
  s.pods[0].containers[0].waiting_reason = "ImagePullBackOff";
  s.pods[0].containers[0].waiting_message = "Back-off pulling image";
  s.now += 20s;
  EXPECT_FALSE(s.plan().status);
}

TEST(StartupPolicy, a_pod_that_cannot_be_scheduled_is_a_reason_of_placed) {
  Situation s(1);
  s.accept();
  auto& pod = s.pod(0, 1, "Pending");
  pod.node_name.clear();
  pod.scheduled = false;
  pod.unschedulable_reason = "Unschedulable";
  pod.unschedulable_message = "0/3 nodes are available";
  s.accept();
  EXPECT_EQ(s.reason("Placed"), "Unschedulable");
  EXPECT_EQ(s.reason("Running"), "Unschedulable");
  EXPECT_EQ(s.condition("Placed")->message, "pod a-abcd-0-1 cannot be scheduled: 0/3 nodes are available");
}

TEST(StartupPolicy, what_the_api_server_refuses_becomes_a_condition) {
  struct Row {
    ErrorCode code;
    const char* message;
    bool with_template;
    const char* reason;
    bool permanent;
  };
  const Row rows[] = {
      {ErrorCode::kForbidden, "pods \"a\" is forbidden: exceeded quota: small", false, "QuotaExceeded", false},
      {ErrorCode::kForbidden, "violates PodSecurity", false, "PodForbidden", false},
      {ErrorCode::kInvalid, "spec.containers[0].ports: unknown field", true, "PodTemplateRefused", true},
      {ErrorCode::kInvalid, "spec.volumes[0].name: duplicate", false, "PodRefused", true},
      {ErrorCode::kAlreadyExists, "", false, "NameConflict", false},
  };
  for (const auto& row : rows) {
    Situation s(1);
    if (row.with_template) s.job.spec.pod_template = {{"spec", {{"x", 1}}}};
    s.accept();
    s.problem = CreateProblem{.kind = "Pod",
                              .name = "a-abcd-0-1",
                              .code = row.code,
                              .message = row.message,
                              .last = s.now,
                              .times = 1,
                              .job_generation = 1};
    const Plan plan = s.accept();
    EXPECT_EQ(s.reason(row.permanent ? "Failed" : "Placed"), row.reason);
    EXPECT_EQ(s.is("Failed"), row.permanent) << row.reason;
    EXPECT_TRUE(plan.creates.empty()) << "not tried again at once: " << row.reason;
    if (row.permanent) continue;
    EXPECT_EQ(plan.requeue_after, 1s) << row.reason;
    s.now += 1s;
    EXPECT_EQ(s.plan().creates.size(), 1u) << row.reason;
    s.now = kStart + 10h;
    s.accept();
    EXPECT_FALSE(s.is("Failed")) << "no pod is placed, so startupSeconds do not count: " << row.reason;
    EXPECT_EQ(s.job.status.state, "Pending");
  }
}

TEST(StartupPolicy, members_that_never_connect_are_named_and_end_at_the_deadline) {
  Situation s;
  s.see(Phase::kWaiting, 0).message = "waiting for slot 1 to connect";
  s.accept();
  s.pod(0);
  s.pod(1);
  s.accept();
  EXPECT_EQ(s.reason("Running"), "Starting");
  EXPECT_EQ(s.condition("Running")->message, "waiting for slot 1 to connect");
  EXPECT_EQ(s.job.status.state, "Starting");
  EXPECT_EQ(s.plan().requeue_after, 600s);
  s.now += 600s;
  s.accept();
  EXPECT_EQ(s.reason("Failed"), "StartupDeadlineExceeded");
  EXPECT_NE(s.condition("Failed")->message.find("slot 1"), std::string::npos);
}

TEST(StartupPolicy, a_job_that_waits_for_capacity_is_pending_and_never_failed) {
  Situation s;
  s.see(Phase::kWaiting, 0);
  s.accept();
  for (int slot = 0; slot < 2; ++slot) s.pod(slot, 1, "Pending");
  api::Pod& last = s.pods[1];
  last.node_name.clear();
  last.scheduled = false;
  last.unschedulable_reason = "Unschedulable";
  last.unschedulable_message = "0/3 nodes are available";
  s.now += 24h;
  s.accept();
  EXPECT_EQ(s.job.status.state, "Pending");
  EXPECT_EQ(s.reason("Running"), "Unschedulable");
  last.node_name = "node-1";
  last.scheduled = true;
  s.place(last);
  last.unschedulable_reason.clear();
  s.accept();
  s.now += 599s;
  s.accept();
  EXPECT_FALSE(s.is("Failed"));
  s.now += 1s;
  s.accept();
  EXPECT_EQ(s.reason("Failed"), "StartupDeadlineExceeded");
}

TEST(StartupPolicy, of_an_elastic_gang_the_fewest_pods_that_train_start_the_clock) {
  Situation s(4);
  s.job.spec.elastic = api::ElasticSpec{.min_nodes = 2};
  s.see(Phase::kWaiting, 0);
  s.accept();
  for (int slot = 0; slot < 2; ++slot) s.pod(slot, 1, "Pending");
  s.now += 600s;
  s.accept();
  EXPECT_TRUE(s.is("Failed"));
}

TEST(StartupPolicy, a_job_that_has_started_has_no_startup_deadline) {
  Situation s;
  s.running();
  s.pods[1].meta.deleted = s.now;
  s.accept();
  s.now += 2h;
  s.accept();
  EXPECT_FALSE(s.is("Failed"));
}

TEST(StartupPolicy, refused_creates_back_off) {
  CreateProblem problem;
  problem.last = kStart;
  const std::pair<int, Duration> rows[] = {{1, 1s}, {2, 2s}, {3, 4s}, {5, 16s}, {6, 30s}, {1000, 30s}};
  for (const auto& [times, wait] : rows) {
    problem.times = times;
    EXPECT_EQ(next_create_try(problem), kStart + wait) << times;
  }
}

// ---- suspend ----

// All nodes are for a moment when the API server was away.
TEST(SuspendPolicy, a_pod_on_a_node_called_not_ready_stops_in_order_while_it_may_speak) {
  Situation s;
  s.running();
  s.node(0, false);
  s.node(1, false);
  s.job.spec.suspend = true;
  EXPECT_TRUE(s.accept().deletes.empty());
  s.view->members[1].connected = false;
  s.reconnecting = true;
  const Plan stopping = s.accept();
  EXPECT_TRUE(stopping.deletes.empty());
  EXPECT_EQ(stopping.coordinator->members.size(), 2u) << "a stop without it would be over before it comes";
  Situation evicted = s;
  evicted.pods[1].meta.deleted = s.now;
  EXPECT_TRUE(evicted.accept().deletes.empty()) << "removed by force it could not tell of its checkpoint any more";
  Situation later = s;
  later.now += 61s;
  EXPECT_TRUE(later.accept().deletes.empty()) << "who has not been told has no grace that is over";
  s.reconnecting = false;
  const Plan plan = s.accept();
  ASSERT_EQ(plan.deletes.size(), 1u);
  EXPECT_EQ(plan.deletes[0].name, s.pods[1].meta.name);
}

TEST(PodPolicy, the_service_is_made_after_the_pods) {
  Situation s(3);
  s.service = false;
  ASSERT_EQ(s.accept().service, ServiceStep::kLook) << "before the first pod";
  s.pod(0, 1, "Pending");
  EXPECT_EQ(s.plan().service, ServiceStep::kLook) << "two pods are to come";
  s.pod(1, 1, "Pending");
  s.pod(2, 1, "Pending");
  const Plan whole = s.plan();
  EXPECT_TRUE(whole.creates.empty());
  EXPECT_EQ(whole.service, ServiceStep::kCreate);
}

TEST(PodPolicy, the_service_does_not_wait_for_a_pod_that_is_refused) {
  Situation s(3);
  s.service = false;
  s.accept();
  s.pod(0, 1, "Pending");
  s.problem = CreateProblem{.kind = "Pod",
                            .name = "a-abcd-1-1",
                            .code = ErrorCode::kForbidden,
                            .message = "quota",
                            .last = s.now,
                            .times = 1,
                            .job_generation = 1};
  s.now += 60s;
  EXPECT_EQ(s.plan().service, ServiceStep::kCreate);
}

TEST(SuspendPolicy, a_job_that_begins_suspended_makes_no_pods) {
  Situation s;
  s.job.spec.suspend = true;
  const Plan plan = s.accept();
  EXPECT_TRUE(plan.creates.empty());
  EXPECT_EQ(plan.service, ServiceStep::kNone);
  EXPECT_EQ(s.job.status.state, "Suspended");
  EXPECT_FALSE(s.plan().status);
  s.job.spec.suspend = false;
  s.now += 1000s;
  const Plan resumed = s.accept();
  EXPECT_EQ(resumed.creates.size(), 2u);
  EXPECT_EQ(s.job.status.incarnation, 1);
  EXPECT_FALSE(s.is("Suspended"));
  EXPECT_FALSE(s.is("Failed")) << "startupSeconds count from the resume";
}

TEST(SuspendPolicy, processes_stop_first_and_pods_go_after_them) {
  Situation s;
  s.running();
  s.job.spec.suspend = true;
  const Plan stop = s.accept();
  EXPECT_TRUE(stop.coordinator->stop);
  EXPECT_TRUE(stop.deletes.empty());
  EXPECT_EQ(s.reason("Suspended"), "Stopping");
  EXPECT_EQ(s.job.status.attempts.at(0).cause, api::Cause::kSuspended);
  EXPECT_FALSE(s.job.status.start_time);
  s.see(Phase::kStopped, 1);
  const Plan gone = s.accept();
  EXPECT_EQ(gone.deletes.size(), 2u);
  s.pods.clear();
  s.accept();
  EXPECT_EQ(s.reason("Suspended"), "Suspended");
  EXPECT_EQ(s.job.status.nodes.summary, "0/2");
  s.job.spec.suspend = false;
  const Plan resumed = s.accept();
  EXPECT_EQ(s.job.status.incarnation, 2);
  EXPECT_EQ(resumed.creates, (std::vector<PodToCreate>{{0, 2}, {1, 2}}));
  EXPECT_FALSE(resumed.coordinator->stop);
  EXPECT_EQ(s.job.status.attempts.size(), 1u) << "what was stopped is no loss";
}

TEST(SuspendPolicy, a_pod_that_runs_before_its_kubelet_has_said_so_saves_like_the_others) {
  Situation s;
  s.running();
  s.pods[1].phase = "Pending";
  s.job.spec.suspend = true;
  EXPECT_TRUE(s.accept().deletes.empty());
  s.view->members[1].connected = false;
  EXPECT_EQ(s.plan().deletes.size(), 1u) << "a pod that nobody hears of runs nothing";
}

TEST(SuspendPolicy, pods_of_processes_that_do_not_stop_go_after_the_grace_period) {
  Situation s;
  s.running();
  s.job.spec.suspend = true;
  s.accept();
  EXPECT_TRUE(s.plan().deletes.empty());
  EXPECT_EQ(s.plan().requeue_after, 61s);
  s.now += 61s;
  EXPECT_EQ(s.plan().deletes.size(), 2u);
}

TEST(SuspendPolicy, a_member_told_to_go_stays_one_until_it_has_reported_its_checkpoint) {
  Situation s;
  s.running();
  s.job.spec.suspend = true;
  s.accept();
  s.now += 61s;
  s.accept();
  for (auto& pod : s.pods) pod.meta.deleted = s.now + 60s;
  EXPECT_EQ(s.plan().coordinator->members.size(), 2u);
  s.pods[0].phase = "Succeeded";
  EXPECT_EQ(s.plan().coordinator->members.size(), 1u) << "one has";
}

TEST(SuspendPolicy, a_resume_waits_until_the_old_pods_are_gone) {
  Situation s;
  s.running();
  s.job.spec.suspend = true;
  s.accept();
  s.job.spec.suspend = false;
  s.see(Phase::kStopped, 1);
  const Plan plan = s.accept();
  EXPECT_TRUE(s.is("Suspended"));
  EXPECT_TRUE(plan.creates.empty());
  EXPECT_EQ(plan.deletes.size(), 2u);
}

// ---- finish ----

TEST(FinishPolicy, clean_pod_policy_decides_which_pods_go) {
  struct Row {
    api::CleanPodPolicy policy;
    size_t at_once, in_the_end;
  };
  const Row rows[] = {
      {api::CleanPodPolicy::kRunning, 1, 2},  // the pending one at once, the running one when its time is over
      {api::CleanPodPolicy::kAll, 2, 3},      // those that succeeded, too
      {api::CleanPodPolicy::kNone, 0, 0},
  };
  for (const auto& row : rows) {
    Situation s(3);
    s.job.spec.clean_pod_policy = row.policy;
    s.running();
    s.see(Phase::kFinished, 1);
    s.accept();
    s.pods[0].phase = "Succeeded";
    s.pods[1].phase = "Pending";
    const Plan plan = s.plan();
    EXPECT_EQ(plan.deletes.size(), row.at_once);
    EXPECT_TRUE(plan.coordinator && plan.coordinator->stop);
    s.now += 65s;
    EXPECT_EQ(s.plan().deletes.size(), row.in_the_end);
  }
}

TEST(FinishPolicy, a_finished_job_without_running_pods_is_forgotten_and_quiet) {
  Situation s;
  s.running();
  s.see(Phase::kFinished, 1);
  s.accept();
  for (auto& pod : s.pods) pod.phase = "Succeeded";
  const Plan plan = s.plan();
  EXPECT_TRUE(plan.forget);
  EXPECT_FALSE(plan.status || plan.coordinator || plan.requeue_after);
  EXPECT_TRUE(plan.deletes.empty());
}

TEST(FinishPolicy, the_job_goes_when_its_time_to_live_is_over) {
  Situation s;
  s.job.spec.ttl_seconds_after_finished = 30;
  s.running();
  s.see(Phase::kFinished, 1);
  s.accept();
  for (auto& pod : s.pods) pod.phase = "Succeeded";
  EXPECT_FALSE(s.plan().delete_job);
  EXPECT_EQ(s.plan().requeue_after, 30s);
  s.now += 30s;
  EXPECT_TRUE(s.plan().delete_job);
}

TEST(FinishPolicy, nothing_leaves_a_terminal_state) {
  Situation s;
  s.running();
  s.see(Phase::kFinished, 1);
  s.accept();
  s.broken(2, api::Cause::kProcessExit, 0, 1);
  s.pods.clear();
  s.job.spec.suspend = true;
  const Plan plan = s.plan();
  EXPECT_FALSE(plan.status);
  EXPECT_TRUE(plan.creates.empty());
}

// ---- status ----

TEST(JobStatus, progress_is_written_every_fifteen_seconds) {
  Situation s;
  s.running();
  s.view->progress = {
      .step = 1, .total_steps = 200, .epoch = 0, .loss = 2.5, .samples_per_second = 10.25, .eta_seconds = 60};
  s.accept();
  ASSERT_TRUE(s.job.status.progress);
  EXPECT_EQ(s.job.status.progress->loss, "2.5");
  EXPECT_EQ(s.job.status.progress->samples_per_second, "10.2");
  s.view->progress.step = 50;
  s.now += 1s;
  Plan plan = s.plan();
  EXPECT_FALSE(plan.status);
  EXPECT_EQ(plan.requeue_after, 14s);
  s.now += 14s;
  s.accept();
  EXPECT_EQ(s.job.status.progress->step, 50);
  EXPECT_EQ(s.job.status.progress->percentage, 25);
}

TEST(JobStatus, progress_of_all_jobs_stays_within_twenty_writes_a_second) {
  EXPECT_EQ(progress_interval(0), 15s);
  EXPECT_EQ(progress_interval(300), 15s);
  EXPECT_EQ(progress_interval(6000), 300s);
  Situation s;
  s.running();
  s.progress_every = progress_interval(6000);
  s.view->progress = {.step = 1, .total_steps = 200};
  s.accept();
  s.view->progress.step = 50;
  s.now += 299s;
  const Plan plan = s.plan();
  EXPECT_FALSE(plan.status);
  EXPECT_EQ(plan.requeue_after, 1s);
  s.now += 1s;
  EXPECT_TRUE(s.plan().status);
}

TEST(JobStatus, an_endless_loss_is_text_not_a_crash) {
  Situation s;
  s.running();
  s.view->progress = {.step = 1,
                      .total_steps = 0,
                      .epoch = 0,
                      .loss = 0.0 / 0.0,
                      .samples_per_second = 1e300 * 1e300,
                      .eta_seconds = 1e300};
  s.accept();
  EXPECT_EQ(s.job.status.progress->loss, "NaN");
}

TEST(JobStatus, counts_are_written_at_most_once_a_second_and_conditions_at_once) {
  Situation s(3);
  s.accept();
  s.last_write = s.now;
  s.pod(0);
  s.now += 300ms;
  Plan plan = s.plan();
  EXPECT_FALSE(plan.status) << "one more pod is ready: that can wait";
  EXPECT_EQ(plan.requeue_after, 700ms);
  s.now += 700ms;
  s.accept();
  EXPECT_EQ(s.job.status.nodes.summary, "1/3");
  s.last_write = s.now;
  s.pod(1);
  s.pod(2);
  s.see(Phase::kUp, 1);
  EXPECT_TRUE(s.plan().status) << "running is news";
}

TEST(JobStatus, a_condition_moves_its_time_only_when_it_flips) {
  Situation s;
  s.see(Phase::kWaiting, 0).message = "waiting for slots 0, 1 to connect";
  s.accept();
  const auto created = s.condition("Running")->last_transition;
  s.now += 5s;
  s.pod(0);
  s.pod(1);
  s.accept();
  EXPECT_EQ(s.condition("Running")->last_transition, created);
  s.see(Phase::kUp, 1);
  s.accept();
  EXPECT_EQ(s.condition("Running")->last_transition, s.now);
}

TEST(SlotTroubles, a_pod_that_is_gone_keeps_its_slot) {
  api::Attempt attempt;
  attempt.cause = api::Cause::kNodeLost;
  attempt.pod = "a-abcd-12-3";
  api::TrainingJobStatus status;
  note_trouble(Snapshot{}, attempt, status);
  ASSERT_TRUE(status.slots);
  ASSERT_EQ(status.slots->size(), 1u);
  EXPECT_EQ(status.slots->front().slot, 12);
}

}  // namespace
}  // namespace lockstep::job::policies_test
