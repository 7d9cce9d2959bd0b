#include "operator/job/suspend_policy.h"

#include <algorithm>

#include "operator/api/cause.h"
#include "operator/job/job_status.h"
#include "operator/job/pod_policy.h"
#include "operator/job/restart_policy.h"

namespace lockstep::job {
namespace {

void begin_suspension(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan) {
  const bool nothing_ran = snapshot.pods.empty();
  set_condition(snapshot, status, "Suspended", true, nothing_ran ? "Suspended" : "Stopping",
                nothing_ran ? "the job is suspended" : "the processes write a checkpoint and stop");
  set_condition(snapshot, status, "Running", false, "Suspended", "the job is suspended");
  set_condition(snapshot, status, "Restarting", false, "Suspended", "the job is suspended");
  set_condition(snapshot, status, "Placed", false, "Suspended", "the job is suspended");
  const auto generation = snapshot.view ? snapshot.view->generation : status.membership_generation;
  if (generation > handled_generation(status)) {
    api::Attempt attempt{.generation = generation, .cause = api::Cause::kSuspended};
    attempt.message = "spec.suspend was set";
    attempt.strategy = api::Strategy::kNothing;
    attempt.step = snapshot.view ? snapshot.view->progress.step : 0;
    attempt.end_time = whole_seconds(snapshot.now);
    append_attempt(status, std::move(attempt));
  }
  status.start_time.reset();
  forgive_all(status.restarts);
  plan.events.push_back({false, "Suspended", "Suspend", "spec.suspend was set"});
}

void carry_on_suspension(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan) {
  const auto* suspended = api::find_condition(status.conditions, "Suspended");
  const auto begun = suspended->last_transition.value_or(snapshot.now);
  const auto pods_end = begun + std::chrono::seconds(snapshot.job->spec.checkpoint.grace_period_seconds + 1);
  std::vector<const api::Pod*> unwanted;
  for (const auto& pod : snapshot.pods) {
    if (may_save(snapshot, *pod) && (snapshot.now < pods_end || snapshot.reconnecting)) {
      plan.look_again_in(std::max<Duration>(pods_end - snapshot.now, std::chrono::seconds(1)));
    } else {
      unwanted.push_back(pod.get());
    }
  }
  delete_pods(snapshot, unwanted, "the job is suspended", plan);
  if (snapshot.pods.empty() && suspended->reason != "Suspended") {
    set_condition(snapshot, status, "Suspended", true, "Suspended", "the job is suspended");
  }
}

}  // namespace

bool apply_suspend(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan) {
  const bool wanted = snapshot.job->spec.suspend;
  const bool suspended = api::is_true(status.conditions, "Suspended");
  if (!wanted && !suspended) return false;
  if (!wanted && snapshot.pods.empty()) {
    set_condition(snapshot, status, "Suspended", false, "Resumed", "the job was resumed");
    status.incarnation = next_incarnation(snapshot);
    plan.events.push_back({false, "Resumed", "Resume", "spec.suspend was cleared"});
    return false;
  }
  if (!suspended) begin_suspension(snapshot, status, plan);
  carry_on_suspension(snapshot, status, plan);
  plan.coordinator = stop_plan(snapshot, status);
  return true;
}

}  // namespace lockstep::job
