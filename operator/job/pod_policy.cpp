#include "operator/job/pod_policy.h"

#include <algorithm>

#include <fmt/format.h>

#include "operator/job/death_policy.h"
#include "operator/job/placement_policy.h"
#include "operator/job/restart_policy.h"
#include "operator/job/scale_policy.h"
#include "operator/job/slot_troubles.h"
#include "operator/job/time_left.h"

namespace lockstep::job {
namespace {

using api::Cause;
using rendezvous::Phase;

constexpr auto kStartsWithin = std::chrono::seconds(10);

bool is_connected(const Snapshot& snapshot, int slot, std::int64_t incarnation) {
  const auto* member = snapshot.view ? snapshot.view->member_of(slot) : nullptr;
  return member != nullptr && member->incarnation == incarnation && member->connected;
}

bool coordinator_lost(const Snapshot& snapshot, int slot) {
  const auto& view = snapshot.view;
  return view && view->phase == rendezvous::Phase::kBroken && view->failure && view->failure->slot == slot &&
         view->failure->cause == Cause::kMemberLost;
}

// Of a generation that runs, and of which some speak, the coordinator tells who is lost: it knows whether all advance,
// which nobody does alone.
bool coordinator_decides(const Snapshot& snapshot, int slot, bool gang_speaks) {
  const auto& view = snapshot.view;
  if (!gang_speaks || (view->phase != Phase::kStarting && view->phase != Phase::kUp)) return false;
  const auto* member = view->member_of(slot);
  return member != nullptr && member->in_gang;
}

// Whether any member of the generation has a connection.
bool speaks(const std::optional<rendezvous::JobView>& view) {
  return view && std::any_of(view->members.begin(), view->members.end(),
                             [](const auto& member) { return member.in_gang && member.connected; });
}

// No agent that could speak may be there yet; and the scheduler may know sooner than we that the node is back.
bool is_starting(const Snapshot& snapshot, const api::Pod& pod) {
  return pod.phase == "Pending" && snapshot.now < pod.meta.created.value_or(snapshot.now) + kStartsWithin;
}

bool takes_part(const Snapshot& snapshot, int slot) {
  const auto* member = snapshot.view ? snapshot.view->member_of(slot) : nullptr;
  return member != nullptr && member->in_gang && !member->leaving;
}

// The pod of the slot in the present generation leaves it, or has left.
bool was_told_to_leave(const Snapshot& snapshot, int slot) {
  const auto& troubles = troubles_of(snapshot.job->status);
  return std::any_of(troubles.begin(), troubles.end(), [&](const api::SlotStatus& entry) {
    return entry.trouble == api::SlotTrouble::kUnhealthy && entry.slot == slot &&
           entry.generation >= snapshot.view->generation;
  });
}

// Whether there is a generation without this slot's pod in it, or the others are about to form one because its agent is
// silent. The coordinator may not have heard yet that they are to, and so still show it in the generation that broke.
bool is_outside(const Snapshot& snapshot, const SlotView& slot) {
  if (!snapshot.view) return false;
  const auto* member = snapshot.view->member_of(slot.slot);
  const bool same_pod =
      member != nullptr && !member->leaving && (slot.pod == nullptr || member->incarnation == slot.incarnation);
  if (slot.pod == nullptr && was_told_to_leave(snapshot, slot.slot)) return true;
  const api::SlotStatus* silence = find_silence(snapshot.job->status, slot);
  const bool broke_it = silence != nullptr && silence->generation >= snapshot.view->generation;
  if (same_pod && member->in_gang && !broke_it) return false;
  const auto& spec = snapshot.job->spec;
  const auto phase = snapshot.view->phase;
  const bool formed = phase == Phase::kUp || phase == Phase::kStarting || phase == Phase::kBroken;
  return (api::may_leave_out(spec) && formed) || slot.slot >= spec.nodes || silence != nullptr;
}

void describe_failed_container(const api::Pod& pod, SlotView& slot) {
  for (const auto& container : pod.containers) {
    if (!container.terminated || container.exit_code == 0) continue;
    slot.exit_code = container.exit_code;
    if (container.out_of_memory()) slot.cause = Cause::kOomKilled;
    slot.message = fmt::format("container {} of pod {} ended with exit code {} ({})", container.name, pod.meta.name,
                               container.exit_code, container.terminated_reason);
    if (!container.terminated_message.empty()) slot.message += ": " + container.terminated_message;
    return;
  }
}

Cause cause_of_disruption(const std::string& reason) {
  if (reason == "PreemptionByScheduler") return Cause::kPreempted;
  if (reason == "DeletionByTaintManager" || reason == "DeletionByPodGC") return Cause::kNodeLost;
  return Cause::kEvicted;
}

// An agent ends with 0 only when its job is over. One that did so while the coordinator still forms generations cannot
// take part in them; right after a take-over the others may just not have reported their own end yet.
bool others_need_it(const Snapshot& snapshot) {
  if (!snapshot.view || snapshot.settling) return false;
  const auto phase = snapshot.view->phase;
  return phase == rendezvous::Phase::kBroken || phase == rendezvous::Phase::kWaiting;
}

// Says how the pod of the slot was lost; leaves `cause` at kNone when it was not.
void find_loss(const Snapshot& snapshot, bool gang_speaks, SlotView& slot) {
  const api::Pod& pod = *slot.pod;
  const std::string* death = death_of(snapshot, pod);
  const bool lost = death != nullptr || coordinator_lost(snapshot, slot.slot) ||
                    (!coordinator_decides(snapshot, slot.slot, gang_speaks) && lost_with_node(snapshot, pod));
  if (on_dead_node(snapshot, pod) && (pod.meta.deleted || lost)) {
    slot.cause = Cause::kNodeLost;
    slot.message = death == nullptr ? fmt::format("node {} of pod {} is not ready", pod.node_name, pod.meta.name)
                                    : fmt::format("node {} of pod {} counts as lost: it has {}", pod.node_name,
                                                  pod.meta.name, *death);
  } else if (pod.phase == "Failed" || pod.meta.deleted) {
    slot.cause = pod.meta.deleted ? Cause::kPodDeleted : Cause::kPodFailed;
    slot.message = pod.meta.deleted ? fmt::format("pod {} was deleted", pod.meta.name)
                                    : fmt::format("pod {} failed", pod.meta.name);
    if (!pod.message.empty()) slot.message += ": " + pod.message;
    if (pod.phase == "Failed") describe_failed_container(pod, slot);
    if (!pod.disruption_reason.empty()) {
      slot.cause = cause_of_disruption(pod.disruption_reason);
      slot.message = fmt::format("pod {}: {}", pod.meta.name,
                                 pod.disruption_message.empty() ? pod.disruption_reason : pod.disruption_message);
    }
  } else if (coordinator_lost(snapshot, slot.slot) && !pod.node_name.empty() && !snapshot.nodes.empty() &&
             !snapshot.nodes.contains(pod.node_name)) {
    slot.cause = Cause::kNodeLost;
    slot.message = fmt::format("node {} of pod {} no longer exists", pod.node_name, pod.meta.name);
  }
}

// A pod that never ran may go without a loss: its node refused it, or it was deleted before it was bound. So says
// placement, which paces its next try and avoids the node. Where kube-scheduler chooses the nodes, nothing else would
// pace it. There it is a loss, and the restart budget ends what would go on for ever.
bool goes_without_loss(const Snapshot& snapshot, const SlotView& slot) {
  if (slot.pod == nullptr) return false;
  const api::Pod& pod = *slot.pod;
  // A job may have changed hands since.
  const bool placed = snapshot.placing || !pod.reserved_node.empty();
  if (placed && pod.meta.deleted && pod.node_name.empty()) return true;
  if (!snapshot.placing) return false;
  // After a reboot a kubelet refuses pods that have run before.
  const auto* member = snapshot.view ? snapshot.view->member_of(slot.slot) : nullptr;
  const bool was_member = member != nullptr && member->in_gang && member->incarnation == slot.incarnation;
  return pod.refused() && !was_member;
}

void classify(const Snapshot& snapshot, bool unhandled_generation, bool placed, bool gang_speaks,
              std::int64_t incarnation, SlotView& slot) {
  slot.outside = is_outside(snapshot, slot);
  // It was dealt with, and its place is empty.
  if (slot.pod != nullptr &&
      find_trouble(snapshot.job->status, api::SlotTrouble::kPartitioned, slot.pod->meta.name) != nullptr) {
    return;
  }
  // Nobody has seen to a slot yet that the job did not have when its status was written.
  const int desired = snapshot.job->status.nodes.desired;
  const bool spare = slot.slot >= snapshot.job->spec.nodes && slot.outside;
  if (slot.pod == nullptr && desired > 0 && slot.slot >= desired + snapshot.job->spec.spares && !spare &&
      !takes_part(snapshot, slot.slot)) {
    return;
  }
  if (goes_without_loss(snapshot, slot)) {
    slot.refused = slot.pod->refused();
    return;
  }
  if (slot.pod != nullptr) find_loss(snapshot, gang_speaks, slot);
  if (slot.pod != nullptr && slot.cause == Cause::kNone) {
    slot.state = slot.pod->phase == "Succeeded" ? SlotState::kDone : SlotState::kLive;
    if (slot.state == SlotState::kLive || !others_need_it(snapshot)) return;
    slot.cause = Cause::kPodFailed;
    slot.message = fmt::format("the agent of pod {} ended before the job was done", slot.pod->meta.name);
  }
  // A pod is missing, or is to be replaced, and the gang does not need it. That is news when all had been there, when
  // its name cannot be used again, or when it tells what its silence was.
  if (slot.outside) {
    const bool tells = find_silence(snapshot.job->status, slot) != nullptr;
    const bool news = placed || (slot.pod != nullptr && (slot.incarnation == incarnation || tells));
    slot.state = news ? SlotState::kLost : SlotState::kEmpty;
    if (slot.pod == nullptr && news) {
      slot.cause = Cause::kPodDeleted;
      slot.message = fmt::format("the pod of slot {} is gone", slot.slot);
    }
    return;
  }
  // A pod is missing. Its loss is news in three cases: all pods had been there; it belonged to a generation that nobody
  // has dealt with; or it was of the newest round, whose name cannot be used again. Otherwise a round is under way.
  const bool news = placed || unhandled_generation || (slot.pod != nullptr && slot.incarnation == incarnation);
  slot.state = news && incarnation > 0 ? SlotState::kLost : SlotState::kEmpty;
  if (slot.pod == nullptr && slot.state == SlotState::kLost) {
    slot.cause = Cause::kPodDeleted;
    slot.message = fmt::format("the pod of slot {} is gone", slot.slot);
  }
}

}  // namespace

const api::SlotStatus* find_silence(const api::TrainingJobStatus& status, const SlotView& slot) {
  if (slot.pod != nullptr) return find_trouble(status, api::SlotTrouble::kSilent, slot.pod->meta.name);
  // The pod is gone, and the watch showed no last status of it.
  const auto& troubles = troubles_of(status);
  const auto silence = std::find_if(troubles.rbegin(), troubles.rend(), [&](const api::SlotStatus& entry) {
    return entry.slot == slot.slot && entry.trouble == api::SlotTrouble::kSilent;
  });
  return silence == troubles.rend() ? nullptr : &*silence;
}

bool Survey::all_placed() const {
  return static_cast<size_t>(placed()) == slots.size();
}

int Survey::placed() const {
  return static_cast<int>(std::count_if(
      slots.begin(), slots.end(), [](const SlotView& slot) { return slot.usable() && !slot.pod->node_name.empty(); }));
}

int Survey::done() const {
  return static_cast<int>(
      std::count_if(slots.begin(), slots.end(), [](const SlotView& slot) { return slot.state == SlotState::kDone; }));
}

int Survey::ready() const {
  return static_cast<int>(std::count_if(slots.begin(), slots.end(), [](const SlotView& slot) {
    return slot.state == SlotState::kLive && slot.pod->ready;
  }));
}

std::int64_t known_incarnation(const Snapshot& snapshot) {
  std::int64_t newest = std::clamp<std::int64_t>(snapshot.job->status.incarnation, 0, kMostIncarnation);
  for (const auto& pod : snapshot.pods) {
    if (const auto identity = identity_of(pod->meta)) newest = std::max(newest, identity->incarnation);
  }
  return newest;
}

std::int64_t next_incarnation(const Snapshot& snapshot) {
  return std::min(known_incarnation(snapshot) + 1, kMostIncarnation);
}

bool on_dead_node(const Snapshot& snapshot, const api::Pod& pod) {
  const auto node = snapshot.nodes.find(pod.node_name);
  const bool away = node != snapshot.nodes.end() && (!node->second->ready || node->second->out_of_service);
  return away || death_of(snapshot, pod) != nullptr;
}

bool silent_on_dead_node(const Snapshot& snapshot, const api::Pod& pod) {
  const auto identity = identity_of(pod.meta);
  const bool speaks = identity && is_connected(snapshot, identity->slot, identity->incarnation);
  return on_dead_node(snapshot, pod) && !speaks;
}

bool lost_with_node(const Snapshot& snapshot, const api::Pod& pod) {
  const bool told = find_trouble(snapshot.job->status, api::SlotTrouble::kNodeLost, pod.meta.name) != nullptr;
  return silent_on_dead_node(snapshot, pod) && (told || (!snapshot.reconnecting && !is_starting(snapshot, pod)));
}

bool may_save(const Snapshot& snapshot, const api::Pod& pod) {
  const bool stopped = snapshot.view && snapshot.view->phase == Phase::kStopped;
  // An agent may be heard a second or two before the kubelet says that its pod runs.
  const auto identity = identity_of(pod.meta);
  const bool speaks = identity && is_connected(snapshot, identity->slot, identity->incarnation);
  const bool runs = pod.phase == "Running" || (!pod.terminal() && speaks);
  return runs && !stopped && !lost_with_node(snapshot, pod);
}

bool all_were_placed(const api::TrainingJobStatus& status) {
  const auto* placed = api::find_condition(status.conditions, "Placed");
  return placed != nullptr && placed->status == "True" && placed->reason != kGangPlaced;
}

Survey survey(const Snapshot& snapshot) {
  return survey(snapshot, known_incarnation(snapshot), snapshot.job->status.released, false);
}

Survey survey(const Snapshot& snapshot, std::int64_t incarnation, const std::vector<api::Release>& released,
              bool unhandled_generation) {
  const auto& job = *snapshot.job;
  const bool whole_gang = job.spec.restart.strategy == api::RestartStrategy::kGang;
  Survey result;
  const int slots = api::slots_with_pods(job.spec);
  result.slots.resize(static_cast<size_t>(slots));
  for (size_t i = 0; i < result.slots.size(); ++i) result.slots[i].slot = static_cast<int>(i);
  for (const auto& pod : snapshot.pods) {
    const auto identity = identity_of(pod->meta);
    const bool told = find_trouble(job.status, api::SlotTrouble::kUnhealthy, pod->meta.name) != nullptr;
    if (identity && (told || is_released(released, *identity))) {
      result.released.push_back(pod.get());
      continue;
    }
    if (identity && identity->slot >= slots && !whole_gang) {
      result.surplus.push_back(pod.get());
      continue;
    }
    if (!identity || identity->slot < 0 || identity->slot >= slots ||
        (whole_gang && identity->incarnation < incarnation)) {
      result.leftovers.push_back(pod.get());
      continue;
    }
    auto& slot = result.slots[static_cast<size_t>(identity->slot)];
    if (slot.pod != nullptr && slot.incarnation >= identity->incarnation) {
      result.leftovers.push_back(pod.get());
      continue;
    }
    if (slot.pod != nullptr) result.leftovers.push_back(slot.pod);
    slot.pod = pod.get();
    slot.incarnation = identity->incarnation;
  }
  const bool placed = all_were_placed(job.status);
  const bool gang_speaks = speaks(snapshot.view);
  for (auto& slot : result.slots) classify(snapshot, unhandled_generation, placed, gang_speaks, incarnation, slot);
  return result;
}

void delete_pods(const Snapshot& snapshot, const std::vector<const api::Pod*>& pods, const std::string& why,
                 Plan& plan) {
  const int patience = snapshot.job->spec.restart.force_delete_after_seconds;
  for (const api::Pod* pod : pods) {
    PodToDelete removal{.name = pod->meta.name, .uid = pod->meta.uid, .grace_period_seconds = {}, .why = why};
    if (on_dead_node(snapshot, *pod)) {
      const auto patient_until = snapshot.now + std::chrono::seconds(patience);
      if (pod->meta.deleted && *pod->meta.deleted <= snapshot.now) {
        removal.grace_period_seconds = 0;
      } else if (!pod->meta.deleted || *pod->meta.deleted > patient_until) {
        removal.grace_period_seconds = patience;
        plan.look_again_in(std::chrono::seconds(patience));
      } else {
        plan.look_again_in(*pod->meta.deleted - snapshot.now);
        continue;
      }
    } else if (pod->meta.deleted) {
      continue;
    }
    plan.deletes.push_back(std::move(removal));
  }
}

void plan_pods(const Snapshot& snapshot, const Survey& survey, const api::TrainingJobStatus& status,
               WallTime hold_creates_until, Plan& plan) {
  const std::int64_t incarnation = status.incarnation;
  std::vector<const api::Pod*> unwanted = survey.leftovers;
  std::vector<PodToCreate> missing;
  const std::vector<std::string> avoid = nodes_to_avoid(troubles_of(status), snapshot.now);
  for (const auto& slot : survey.slots) {
    // A loss is dealt with first: until its attempt is stored, its pod is what tells of it, and its name is taken.
    if (slot.usable() || slot.state == SlotState::kLost || slot.refused) continue;
    if (slot.pod != nullptr) unwanted.push_back(slot.pod);
    // The name of a lost pod of this very round is taken until the round is over.
    if (slot.pod == nullptr || slot.incarnation < incarnation) missing.push_back({slot.slot, incarnation, avoid});
  }
  delete_pods(snapshot, unwanted, "no longer of the gang", plan);
  delete_pods(snapshot, survey.released, "it is to leave the gang", plan);
  for (const api::Pod* pod : survey.released) {
    if (!pod->meta.deleted) continue;
    const Duration left = *pod->meta.deleted + kLeaveOverdue - snapshot.now;
    if (left > Duration::zero()) plan.look_again_in(left);
  }
  plan_placed_pods(snapshot, survey, incarnation, plan);
  missing = creates_with_nodes(snapshot, incarnation, std::move(missing), plan);

  if (missing.empty() && snapshot.service_present) return;
  WallTime not_before = hold_creates_until;
  if (snapshot.create_problem) {
    const WallTime refused = snapshot.create_problem->last;
    const Duration wait = time_left(snapshot.now, refused, next_create_try(*snapshot.create_problem) - refused);
    not_before = std::max(not_before, snapshot.now + wait);
  }
  if (snapshot.now < not_before) {
    plan.look_again_in(not_before - snapshot.now);
    return;
  }
  // The Service comes after the pods, because kube-controller-manager rewrites its endpoints with every few of them
  // (ADR 0029). After a refused create, the pods that exist get it at once: an elastic gang may begin with them.
  if (!snapshot.service_present && !snapshot.pods.empty() && (missing.empty() || snapshot.create_problem)) {
    plan.service = ServiceStep::kCreate;
  } else if (!snapshot.service_present && !missing.empty()) {
    plan.service = ServiceStep::kLook;
  }
  plan.creates = std::move(missing);
}

WallTime next_create_try(const CreateProblem& problem) {
  constexpr std::int64_t kMostSeconds = 30;
  const int doublings = std::clamp(problem.times - 1, 0, 5);
  return problem.last + std::chrono::seconds(std::min<std::int64_t>(std::int64_t{1} << doublings, kMostSeconds));
}

}  // namespace lockstep::job
