#include "operator/job/startup_policy.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "operator/placement/placer.h"

namespace lockstep::job {
namespace {

struct WaitingReason {
  std::string_view of_kubelet;
  std::string_view reported;  // ErrImagePull and ImagePullBackOff take turns: one name keeps the status quiet
  bool permanent;
};

// The placer has not been able to decide; it will in a moment.
constexpr const char* kPlacementPending = "PlacementPending";

constexpr Duration kFirstRefusalWait = std::chrono::seconds(5);
constexpr Duration kMostRefusalWait = std::chrono::seconds(20);

constexpr std::array kWaitingReasons{
    WaitingReason{"ErrImagePull", "ImagePullBackOff", false},
    WaitingReason{"ImagePullBackOff", "ImagePullBackOff", false},
    WaitingReason{"RegistryUnavailable", "ImagePullBackOff", false},
    WaitingReason{"ImageInspectError", "ImagePullBackOff", false},
    WaitingReason{"ErrImageNeverPull", "ErrImageNeverPull", false},
    WaitingReason{"InvalidImageName", "InvalidImageName", true},
    WaitingReason{"CreateContainerConfigError", "CreateContainerConfigError", false},
    WaitingReason{"CreateContainerError", "CreateContainerError", false},
    WaitingReason{"RunContainerError", "RunContainerError", false},
    WaitingReason{"CrashLoopBackOff", "CrashLoopBackOff", false},
};

Blocker from_refusal(const api::TrainingJob& job, const CreateProblem& problem) {
  Blocker blocker{.reason = {}, .message = {}, .permanent = false, .placement = true};
  const std::string what = (problem.kind == "Service" ? "Service " : "pod ") + problem.name;
  if (problem.code == ErrorCode::kAlreadyExists) {
    blocker.reason = "NameConflict";
    blocker.message =
        fmt::format("{} exists and does not belong to this job; delete it or give the job another name", what);
  } else if (problem.code == ErrorCode::kInvalid) {
    blocker.reason = job.spec.pod_template.empty() ? "PodRefused" : "PodTemplateRefused";
    blocker.message = fmt::format("{} was refused: {}", what, problem.message);
    blocker.permanent = problem.job_generation == job.meta.generation;
  } else {
    blocker.reason = problem.message.find("exceeded quota") != std::string::npos ? kQuotaExceeded : "PodForbidden";
    blocker.message = fmt::format("{} was refused: {}", what, problem.message);
  }
  return blocker;
}

// As users of other gang schedulers know them.
const char* reason_of_wait(placement::Why why) {
  switch (why) {
    case placement::Why::kNothing:
    case placement::Why::kUnknown:
      return kPlacementPending;
    case placement::Why::kPaused:
      return "PlacementPaused";
    case placement::Why::kReleasing:
      return "GangReleased";
    case placement::Why::kReplacing:
      return "Replacing";
    case placement::Why::kNoRoom:
      return "WaitingForRoom";
    case placement::Why::kPreferred:
      return "PreferredLevelUnavailable";
    case placement::Why::kTooLarge:
      return "GangTooLarge";
  }
  return kPlacementPending;
}

Blocker from_kubelet(const api::Pod& pod) {
  std::string why = pod.reason.empty() ? "no reason given" : pod.reason;
  if (!pod.message.empty()) why += ": " + pod.message;
  return {.reason = "Replacing",
          .message = fmt::format("node {} refused pod {}: {}", pod.node_name, pod.meta.name, why),
          .permanent = false,
          .placement = true};
}

bool has_our_gate(const api::Pod& pod) {
  return std::find(pod.gates.begin(), pod.gates.end(), api::kPlacementGate) != pod.gates.end();
}

// A gate of ours is no trouble: it goes when the gang has its nodes. Another controller's is named.
std::optional<Blocker> from_gates(const api::Pod& pod) {
  for (const std::string& gate : pod.gates) {
    if (gate == api::kPlacementGate) continue;
    return Blocker{.reason = "SchedulingGated",
                   .message = fmt::format("pod {} waits until its scheduling gate {} is removed", pod.meta.name, gate),
                   .permanent = false,
                   .placement = true};
  }
  return std::nullopt;
}

std::optional<Blocker> from_pod(const api::Pod& pod) {
  for (const auto& container : pod.containers) {
    const auto known = std::find_if(kWaitingReasons.begin(), kWaitingReasons.end(),
                                    [&](const auto& reason) { return reason.of_kubelet == container.waiting_reason; });
    if (known == kWaitingReasons.end()) continue;
    return Blocker{.reason = std::string(known->reported),
                   .message = fmt::format(
                       "container {} of pod {} cannot start: {}", container.name, pod.meta.name,
                       container.waiting_message.empty() ? container.waiting_reason : container.waiting_message),
                   .permanent = known->permanent,
                   .placement = false};
  }
  if (pod.unschedulable_reason == "SchedulingGated") return from_gates(pod);
  if (!pod.scheduled && pod.node_name.empty() && !pod.unschedulable_reason.empty()) {
    return Blocker{.reason = "Unschedulable",
                   .message = fmt::format("pod {} cannot be scheduled: {}", pod.meta.name, pod.unschedulable_message),
                   .permanent = false,
                   .placement = true};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Blocker> find_blocker(const Snapshot& snapshot, const Survey& survey) {
  if (snapshot.create_problem) return from_refusal(*snapshot.job, *snapshot.create_problem);
  std::optional<Blocker> first;
  int there = 0;
  for (const auto& slot : survey.slots) {
    if (slot.usable()) ++there;
    if (slot.state != SlotState::kLive && !slot.refused) continue;
    auto blocker = slot.refused ? from_kubelet(*slot.pod) : from_pod(*slot.pod);
    if (blocker && blocker->permanent) return blocker;
    if (!first) first = std::move(blocker);
  }
  if (!first && there < api::fewest_nodes(snapshot.job->spec)) {
    first = find_placement_wait(snapshot);
    if (first && first->reason == kPlacementPending) first.reset();  // it takes milliseconds
  }
  if (!first || first->reason != "ImagePullBackOff") return first;
  // The kubelet's sentence about a failed pull changes with each try; the first one is kept while it concerns the same
  // pod.
  const auto* running = api::find_condition(snapshot.job->status.conditions, "Running");
  if (running != nullptr && running->reason == first->reason) {
    const auto subject = first->message.substr(0, first->message.find(" cannot start"));
    if (running->message.starts_with(subject)) first->message = running->message;
  }
  return first;
}

std::optional<Blocker> find_placement_wait(const Snapshot& snapshot) {
  if (!snapshot.placing) return std::nullopt;
  Blocker blocker{.reason = kPlacementPending, .message = {}, .permanent = false, .placement = true};
  if (!snapshot.placing->refusal.empty()) {
    blocker.reason = "PlacementRefused";
    blocker.message = snapshot.placing->refusal;
    return blocker;
  }
  const auto& answer = snapshot.placing->answer;
  if (!answer) {
    blocker.message = "the operator reads the nodes and pods of the cluster before it places the pods";
    return blocker;
  }
  if (answer->wait.why == placement::Why::kNothing) return std::nullopt;
  blocker.reason = reason_of_wait(answer->wait.why);
  blocker.message = placement::describe(answer->wait, snapshot.placing->level_name);
  return blocker;
}

std::optional<Duration> refusal_wait(const Snapshot& snapshot) {
  if (!snapshot.placing || !snapshot.placing->may_end) return std::nullopt;
  const auto& status = snapshot.job->status;
  if (all_were_placed(status)) return std::nullopt;
  if (api::is_true(status.conditions, "Placed")) return kMostRefusalWait;
  const auto* placed = api::find_condition(status.conditions, "Placed");
  const bool known = placed != nullptr && placed->last_transition;
  const Duration waited = known ? snapshot.now - *placed->last_transition : Duration::zero();
  return std::clamp<Duration>(waited, kFirstRefusalWait, kMostRefusalWait);
}

std::optional<WallTime> startup_deadline(const Snapshot& snapshot, const Survey& survey,
                                         const api::TrainingJobStatus& status) {
  if (status.start_time) return std::nullopt;
  std::vector<WallTime> placed;
  for (const auto& slot : survey.slots) {
    if (!slot.usable() || slot.pod->node_name.empty()) continue;
    const auto since = slot.pod->scheduled_at ? slot.pod->scheduled_at : slot.pod->meta.created;
    if (since) placed.push_back(*since);
  }
  const auto enough = static_cast<size_t>(std::max(api::fewest_nodes(snapshot.job->spec), 1));
  if (placed.size() < enough) return std::nullopt;
  const auto last = placed.begin() + static_cast<std::ptrdiff_t>(enough) - 1;
  std::nth_element(placed.begin(), last, placed.end());
  return *last + std::chrono::seconds(snapshot.job->spec.deadlines.startup_seconds);
}

std::string waiting_for(const Snapshot& snapshot, const Survey& survey) {
  for (const auto& slot : survey.slots) {
    if (slot.slot >= snapshot.job->spec.nodes) break;  // a spare
    if (slot.pod == nullptr || slot.state != SlotState::kLive)
      return fmt::format("waiting for the pod of slot {}", slot.slot);
    if (slot.pod->node_name.empty() && has_our_gate(*slot.pod))
      return fmt::format("pod {} waits until all pods of the gang have a node", slot.pod->meta.name);
    if (slot.pod->node_name.empty()) return fmt::format("waiting for pod {} to be scheduled", slot.pod->meta.name);
    if (slot.pod->phase == "Pending") return fmt::format("waiting for pod {} to start", slot.pod->meta.name);
  }
  if (!snapshot.view) return "waiting for the coordinator";
  std::string text = snapshot.view->message.empty() ? "waiting for the ranks to start" : snapshot.view->message;
  if (!snapshot.view->refused.empty()) text += "; turned away: " + snapshot.view->refused.back();
  return text;
}

}  // namespace lockstep::job
