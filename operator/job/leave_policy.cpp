#include "operator/job/leave_policy.h"

#include <algorithm>

#include <fmt/format.h>

#include "operator/job/job_status.h"
#include "operator/job/restart_policy.h"
#include "operator/job/slot_troubles.h"

namespace lockstep::job {
namespace {

using api::SlotTrouble;

const Sickness* sickness_of(const Snapshot& snapshot, const SlotView& slot) {
  if (slot.pod == nullptr || slot.state != SlotState::kLive) return nullptr;
  const auto sick = snapshot.sick_pods.find(slot.pod->meta.name);
  return sick == snapshot.sick_pods.end() ? nullptr : &sick->second;
}

bool is_to_leave(const Sickness* sick) {
  return sick != nullptr && sick->doubt.empty();
}

// The slot has a member that stays. An agent speaks on while its pod is being deleted. A sick spare would go next.
bool stays(const Snapshot& snapshot, const SlotView& slot) {
  const auto* member = snapshot.view->member_of(slot.slot);
  if (slot.state != SlotState::kLive || member == nullptr || member->incarnation != slot.incarnation) return false;
  return member->connected && !member->leaving && (member->in_gang || !is_to_leave(sickness_of(snapshot, slot)));
}

// Without the slot, the generation has enough members, counting those beside it that are well.
bool can_spare(const Snapshot& snapshot, const Survey& gang, int slot) {
  return std::count_if(gang.slots.begin(), gang.slots.end(), [&](const SlotView& other) {
           return other.slot != slot && stays(snapshot, other);
         }) >= api::fewest_nodes(snapshot.job->spec);
}

// The state outlives the slot's member: another member has it in memory, or all save it as that one leaves.
bool keeps_state(const Snapshot& snapshot, const Survey& gang, int slot) {
  return !snapshot.job->spec.checkpoint.path.empty() ||
         std::any_of(gang.slots.begin(), gang.slots.end(), [&](const SlotView& other) {
           return other.slot != slot && stays(snapshot, other) && snapshot.view->member_of(other.slot)->in_gang;
         });
}

// Placement keeps a node for the next pod of the slot.
bool has_node(const Snapshot& snapshot, int slot) {
  return snapshot.placing && snapshot.placing->answer && snapshot.placing->answer->reserved.contains(slot);
}

// A member leaves, or has left a generation that the coordinator still shows.
bool one_leaves(const Snapshot& snapshot, const Survey& gang) {
  const auto& members = snapshot.view->members;
  return !gang.released.empty() || std::any_of(members.begin(), members.end(), [&](const auto& member) {
    const auto slot = static_cast<size_t>(member.slot);
    if (!member.in_gang) return false;
    return slot >= gang.slots.size() || gang.slots[slot].state != SlotState::kLive ||
           gang.slots[slot].incarnation != member.incarnation;
  });
}

// Members may leave at all.
bool runs_on(const Snapshot& snapshot, const Survey& gang) {
  const auto& spec = snapshot.job->spec;
  const bool runs = snapshot.view && snapshot.view->phase == rendezvous::Phase::kUp && !snapshot.settling;
  return runs && !one_leaves(snapshot, gang) && spec.rendezvous.kind == api::RendezvousKind::kLockstep &&
         spec.restart.strategy != api::RestartStrategy::kGang;
}

// How long a sick pod stays in any case.
Duration left_for(const Snapshot& snapshot, const api::TrainingJobStatus& status, const SlotView& slot,
                  const Sickness& sick) {
  const Duration stays = stays_for(status, *slot.pod, snapshot.now, {SlotTrouble::kUnhealthy, SlotTrouble::kNodeLost});
  return std::max<Duration>(kSignLasts - sick.age, stays);
}

// Its place is empty. Stored before anything is deleted.
Course tell(const Snapshot& snapshot, Course course, int slot, const Sickness& sick) {
  const SlotView& view = course.gang.slots[static_cast<size_t>(slot)];
  auto sentence = fmt::format("pod {} leaves node {}: {}", view.pod->meta.name, view.pod->node_name,
                              note_departure(snapshot, view, sick, course.status));
  course.plan.events.push_back({true, reason_of(api::Cause::kUnhealthy), "Leave", sentence});
  auto attempt =
      with_pod_of(course.gang, slot, new_attempt(snapshot, course.status, api::Cause::kUnhealthy, std::move(sentence)));
  attempt.generation = handled_generation(course.status);  // it ends none
  attempt.strategy = api::Strategy::kReplaceFailed;
  const auto verdict = judge_failure(snapshot.job->spec, course.status.restarts, attempt, snapshot.now);
  if (!verdict.restart) return give_up(snapshot, std::move(course), std::move(attempt), verdict);
  attempt.counted = verdict.counted;
  attempt.decision = verdict.explanation;
  if (attempt.counted) note_verdict(snapshot.job->spec, attempt, snapshot.now, course.status.restarts);
  append_attempt(course.status, std::move(attempt));
  release_sick(slot, course.gang);
  return begin_round(snapshot, std::move(course));
}

// Says that pods stay whose sign is doubted, from when they would have left. One stands for all of them.
Course tell_doubt(const Snapshot& snapshot, Course course) {
  for (const SlotView& slot : course.gang.slots) {
    const Sickness* sick = sickness_of(snapshot, slot);
    if (sick == nullptr || sick->doubt.empty()) continue;
    if (sick->age < kSignLasts) {
      course.plan.look_again_in(kSignLasts - sick->age);
      continue;
    }
    course.plan.notice = EventToSend{.warning = true,
                                     .reason = "ManyNodesSick",
                                     .action = "Stay",
                                     .note = fmt::format("pod {} stays on node {}: {}, but {}", slot.pod->meta.name,
                                                         slot.pod->node_name, sick->sign, sick->doubt)};
    return course;
  }
  return course;
}

// Says that a pod stays because the gang could not go on without it, or would lose its state. One stands for all.
void tell_stay(const Snapshot& snapshot, const SlotView& slot, const Sickness& sick, bool goes_on, Course& course) {
  if (course.plan.notice) return;
  const auto& spec = snapshot.job->spec;
  std::string why = goes_on ? "only it has the state, and checkpoint.path is not set" : "no healthy spare is ready";
  if (!goes_on && spec.elastic) {
    why += fmt::format(", {}fewer than {} members would stay", snapshot.placing ? "" : "and ", api::fewest_nodes(spec));
  }
  if (!goes_on && snapshot.placing) why += ", and no other node is free";
  course.plan.notice = EventToSend{.warning = true,
                                   .reason = "SickMemberStays",
                                   .action = "Stay",
                                   .note = fmt::format("pod {} stays on node {}: {}, but {}", slot.pod->meta.name,
                                                       slot.pod->node_name, sick.sign, why)};
}

}  // namespace

std::string note_departure(const Snapshot& snapshot, const SlotView& slot, const Sickness& sick,
                           api::TrainingJobStatus& status) {
  add_trouble({.slot = slot.slot,
               .trouble = SlotTrouble::kUnhealthy,
               .pod = slot.pod->meta.name,
               .node = slot.pod->node_name,
               .since = whole_seconds(snapshot.now),
               .generation = snapshot.view->generation,
               .sign = sick.sign},
              status);
  const auto nodes = nodes_left(troubles_of(status), snapshot.now);
  return nodes < 2 ? sick.sign : fmt::format("{}; the job left {} nodes within ten minutes", sick.sign, nodes);
}

void release_sick(int slot, Survey& gang) {
  SlotView& view = gang.slots[static_cast<size_t>(slot)];
  if (view.pod == nullptr) return;
  gang.released.push_back(view.pod);
  view = SlotView{.slot = slot, .outside = true};
}

const Sickness* sickness_behind(const Snapshot& snapshot, const api::TrainingJobStatus& status, const SlotView& slot) {
  const Sickness* sick = sickness_of(snapshot, slot);
  if (!is_to_leave(sick) || has_left(troubles_of(status), slot.slot, slot.pod->meta.name, snapshot.now)) return nullptr;
  const Duration stays = stays_for(status, *slot.pod, snapshot.now, {SlotTrouble::kUnhealthy, SlotTrouble::kNodeLost});
  return stays > Duration::zero() ? nullptr : sick;
}

Course leave_sick(const Snapshot& snapshot, Course course) {
  if (snapshot.sick_pods.empty() || !runs_on(snapshot, course.gang)) return course;
  course = tell_doubt(snapshot, std::move(course));
  for (const SlotView& slot : course.gang.slots) {
    const Sickness* sick = sickness_of(snapshot, slot);
    if (!is_to_leave(sick)) continue;
    const Duration left = left_for(snapshot, course.status, slot, *sick);
    if (left > Duration::zero()) {
      course.plan.look_again_in(left);
      continue;
    }
    const bool goes_on = can_spare(snapshot, course.gang, slot.slot) || has_node(snapshot, slot.slot);
    if (slot.outside || (goes_on && keeps_state(snapshot, course.gang, slot.slot))) {
      return tell(snapshot, std::move(course), slot.slot, *sick);
    }
    tell_stay(snapshot, slot, *sick, goes_on, course);
  }
  return course;
}

std::optional<int> slot_that_needs_a_node(const Snapshot& snapshot, const Survey& gang) {
  if (snapshot.sick_pods.empty() || !runs_on(snapshot, gang)) return std::nullopt;
  for (const SlotView& slot : gang.slots) {
    const Sickness* sick = sickness_of(snapshot, slot);
    if (!is_to_leave(sick) || left_for(snapshot, snapshot.job->status, slot, *sick) > Duration::zero()) continue;
    if (!slot.outside && !keeps_state(snapshot, gang, slot.slot)) continue;
    if (slot.outside || can_spare(snapshot, gang, slot.slot)) return std::nullopt;
    return slot.slot;
  }
  return std::nullopt;
}

}  // namespace lockstep::job
