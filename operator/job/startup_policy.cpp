#include "operator/job/startup_policy.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace lockstep::job {
namespace {

struct WaitingReason {
  std::string_view of_kubelet;
  std::string_view reported;  // ErrImagePull and ImagePullBackOff take turns: one name keeps the status quiet
  bool permanent;
};

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
  for (const auto& slot : survey.slots) {
    if (slot.state != SlotState::kLive) continue;
    auto blocker = from_pod(*slot.pod);
    if (blocker && blocker->permanent) return blocker;
    if (!first) first = std::move(blocker);
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
    if (slot.pod->node_name.empty()) return fmt::format("waiting for pod {} to be scheduled", slot.pod->meta.name);
    if (slot.pod->phase == "Pending") return fmt::format("waiting for pod {} to start", slot.pod->meta.name);
  }
  if (!snapshot.view) return "waiting for the coordinator";
  std::string text = snapshot.view->message.empty() ? "waiting for the ranks to start" : snapshot.view->message;
  if (!snapshot.view->refused.empty()) text += "; turned away: " + snapshot.view->refused.back();
  return text;
}

}  // namespace lockstep::job
