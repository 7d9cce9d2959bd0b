#include "operator/job/finish_policy.h"

#include <algorithm>

#include "operator/job/job_status.h"

namespace lockstep::job {
namespace {

// Beyond the grace period of the processes, for the agents to end and the kubelets to say so.
constexpr auto kEndOfPods = std::chrono::seconds(5);

}  // namespace

bool is_finished(const api::TrainingJobStatus& status) {
  return api::is_true(status.conditions, "Succeeded") || api::is_true(status.conditions, "Failed");
}

bool has_succeeded(const Snapshot& snapshot, const Survey& survey, std::int64_t handled_generation) {
  const auto& view = snapshot.view;
  if (view && view->generation > handled_generation) {
    if (view->phase == rendezvous::Phase::kFinished) return true;
    if (view->phase == rendezvous::Phase::kBroken) return false;
  }
  // The agents end with 0 only when the job is done: a controller that took over after that sees it by the pods.
  return !survey.slots.empty() && survey.done() >= snapshot.job->spec.nodes;
}

std::optional<WallTime> active_deadline(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  if (!job.spec.deadlines.active_seconds || !status.start_time) return std::nullopt;
  return *status.start_time + std::chrono::seconds(*job.spec.deadlines.active_seconds);
}

void clean_up(const Snapshot& snapshot, Plan& plan) {
  const auto& job = *snapshot.job;
  const auto completed = job.status.completion_time.value_or(snapshot.now);
  if (job.spec.ttl_seconds_after_finished) {
    const auto end_of_life = completed + std::chrono::seconds(*job.spec.ttl_seconds_after_finished);
    if (snapshot.now >= end_of_life) {
      plan.delete_job = true;
      return;
    }
    plan.look_again_in(end_of_life - snapshot.now);
  }

  const auto pods_end = completed + std::chrono::seconds(job.spec.checkpoint.grace_period_seconds) + kEndOfPods;
  const bool stopped = snapshot.view && snapshot.view->phase == rendezvous::Phase::kStopped;
  const auto policy = job.spec.clean_pod_policy;
  std::vector<const api::Pod*> unwanted;
  bool any_running = false;
  for (const auto& pod : snapshot.pods) {
    if (pod->terminal()) {
      if (policy == api::CleanPodPolicy::kAll) unwanted.push_back(pod.get());
      continue;
    }
    any_running = true;
    if (policy == api::CleanPodPolicy::kNone && !pod->meta.deleted) continue;
    // A pod that never ran has no log to keep; the others get the time to end by themselves.
    const bool never_ran = pod->phase == "Pending";
    const bool no_longer_needed = policy == api::CleanPodPolicy::kAll && stopped;
    if (never_ran || no_longer_needed || pod->meta.deleted || on_dead_node(snapshot, *pod) ||
        snapshot.now >= pods_end) {
      unwanted.push_back(pod.get());
    } else {
      plan.look_again_in(pods_end - snapshot.now);
    }
  }
  delete_pods(snapshot, unwanted, "the job has finished", plan);

  if (any_running) {
    plan.coordinator = job_plan(snapshot, survey(snapshot), job.status);
    plan.coordinator->stop = true;
  } else {
    plan.forget = true;
  }
}

}  // namespace lockstep::job
