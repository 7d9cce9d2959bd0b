#include "operator/job/hold_policy.h"

#include <algorithm>

#include <fmt/format.h>

#include "operator/job/job_status.h"
#include "operator/job/pod_policy.h"

namespace lockstep::job {
namespace {

using rendezvous::Phase;

// When those that are left have waited for long enough; empty when nobody holds anything, or they are about to go on.
std::optional<WallTime> end_of_patience(const Snapshot& snapshot, const api::TrainingJobStatus& status) {
  const auto& spec = snapshot.job->spec;
  const auto* restarting = api::find_condition(status.conditions, "Restarting");
  if (!spec.elastic || spec.checkpoint.path.empty() || restarting == nullptr || restarting->status != "True" ||
      !restarting->last_transition || !snapshot.view || snapshot.view->phase != Phase::kWaiting) {
    return std::nullopt;
  }
  const auto& members = snapshot.view->members;
  const bool held = std::any_of(members.begin(), members.end(), [](const auto& member) { return member.alive; });
  const auto there = std::count_if(members.begin(), members.end(),
                                   [](const auto& member) { return member.connected && !member.leaving; });
  if (!held || there >= spec.elastic->min_nodes) return std::nullopt;
  // The API keeps whole seconds of a transition: one more, so that they never hold for less than the user asked for.
  return *restarting->last_transition + std::chrono::seconds(spec.elastic->hold_seconds) + std::chrono::seconds(1);
}

void let_go(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan) {
  const auto& elastic = *snapshot.job->spec.elastic;
  const auto sentence = fmt::format(
      "fewer than elastic.minNodes ({}) pods were there for elastic.holdSeconds ({}): what they hold is saved, and all "
      "the pods are recreated",
      elastic.min_nodes, elastic.hold_seconds);
  set_condition(snapshot, status, "Restarting", true, kBelowMinimum, sentence);
  set_condition(snapshot, status, "Running", false, kBelowMinimum, sentence);
  set_condition(snapshot, status, "Placed", false, kBelowMinimum, sentence);
  plan.events.push_back({true, kBelowMinimum, "Release", sentence});
}

}  // namespace

bool is_let_go(const api::TrainingJobStatus& status) {
  const auto* restarting = api::find_condition(status.conditions, "Restarting");
  return restarting != nullptr && restarting->status == "True" && restarting->reason == kBelowMinimum;
}

bool apply_hold(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan) {
  const bool lets_go = is_let_go(status);
  if (lets_go && snapshot.pods.empty()) {
    status.incarnation = next_incarnation(snapshot);
    set_condition(snapshot, status, "Restarting", true, "Released", "the job goes on from its checkpoint");
    return false;
  }
  if (!lets_go) {
    const auto end = end_of_patience(snapshot, status);
    if (!end) return false;
    if (snapshot.now < *end) {
      plan.look_again_in(*end - snapshot.now);
      return false;
    }
    let_go(snapshot, status, plan);
  }
  std::vector<const api::Pod*> unwanted;
  for (const auto& pod : snapshot.pods) {
    if (!may_save(snapshot, *pod)) unwanted.push_back(pod.get());
  }
  delete_pods(snapshot, unwanted, "too few are left", plan);
  plan.coordinator = stop_plan(snapshot, status);
  return true;
}

}  // namespace lockstep::job
