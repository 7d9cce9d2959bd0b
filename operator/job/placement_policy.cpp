#include "operator/job/placement_policy.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "operator/job/children.h"
#include "operator/job/course.h"
#include "operator/job/finish_policy.h"
#include "operator/job/hold_policy.h"
#include "operator/job/leave_policy.h"
#include "operator/job/slot_troubles.h"

namespace lockstep::job {
namespace {

using placement::Seat;
using placement::SeatState;
using rendezvous::Phase;

std::string placed_name(const api::ObjectMeta& job, const std::string& pod) {
  return job.name_space + "/" + pod;
}

std::optional<std::size_t> our_gate(const api::Pod& pod) {
  const auto gate = std::find(pod.gates.begin(), pod.gates.end(), api::kPlacementGate);
  if (gate == pod.gates.end()) return std::nullopt;
  return static_cast<std::size_t>(gate - pod.gates.begin());
}

// The answer for a job whose pods the operator places; null where there is none (yet).
const placement::Answer* answer_of(const Snapshot& snapshot) {
  return snapshot.placing && snapshot.placing->answer ? &*snapshot.placing->answer : nullptr;
}

// The slot has a pod that counts: it runs or will run, or its node refused it.
bool has_seat(const SlotView& slot) {
  return slot.pod != nullptr && (slot.usable() || slot.refused);
}

Seat seat_of(const SlotView& slot, const api::TrainingJob& job, std::int64_t incarnation_of_create) {
  Seat seat{
      .slot = slot.slot, .pod = placed_name(job.meta, pod_name(job, slot.slot, incarnation_of_create)), .node = {}};
  if (!has_seat(slot)) return seat;
  const api::Pod& pod = *slot.pod;
  seat.pod = placed_name(job.meta, pod.meta.name);
  seat.node = pod.node_name.empty() ? pod.reserved_node : pod.node_name;
  if (seat.node.empty()) return seat;
  seat.uid = pod.meta.uid;
  seat.version = pod.meta.resource_version;
  if (slot.refused) {
    seat.state = SeatState::kRefused;
  } else if (!pod.node_name.empty()) {
    seat.state = SeatState::kBound;
  } else if (our_gate(pod)) {
    seat.state = SeatState::kGated;
  } else {
    seat.state = SeatState::kPinned;
    seat.unschedulable = pod.unschedulable_reason == "Unschedulable";
  }
  return seat;
}

// The pods that are being deleted and still take room on a node.
std::vector<Seat> ending_of(const Snapshot& snapshot) {
  std::vector<Seat> ending;
  for (const auto& pod : snapshot.pods) {
    if (!pod->meta.deleted || pod->terminal() || pod->node_name.empty()) continue;
    ending.push_back({.pod = placed_name(snapshot.job->meta, pod->meta.name),
                      .node = pod->node_name,
                      .state = SeatState::kBound,
                      .uid = pod->meta.uid,
                      .version = pod->meta.resource_version});
  }
  return ending;
}

// Nothing is lost when all its pods go: it has not trained, or its state lies in a checkpoint. Never while a generation
// exists, or is about to, because its pods would be a loss.
bool may_release(const Snapshot& snapshot) {
  const auto& job = *snapshot.job;
  if (has_unhandled(snapshot, job.status)) return false;
  if (snapshot.view && snapshot.view->phase == Phase::kProposing) return false;
  return !job.status.start_time || (snapshot.view && !job.spec.checkpoint.path.empty());
}

// For how long some pods of a gang that is not whole have stood on nodes. The time at which a gate was removed is not
// known, so pods that are not bound do not count.
Duration held_for(const Snapshot& snapshot, const Survey& gang) {
  const auto* placed = api::find_condition(snapshot.job->status.conditions, "Placed");
  if (placed == nullptr || placed->status == "True" || !placed->last_transition) return {};
  std::optional<WallTime> first;
  for (const SlotView& slot : gang.slots) {
    if (!slot.usable() || slot.pod->node_name.empty() || !slot.pod->scheduled_at) continue;
    first = std::min(first.value_or(*slot.pod->scheduled_at), *slot.pod->scheduled_at);
  }
  if (!first) return {};
  return std::max<Duration>(snapshot.now - std::max(*first, *placed->last_transition), Duration::zero());
}

// Its age in the queue.
WallTime in_queue_since(const api::TrainingJob& job) {
  const auto created = job.meta.created.value_or(WallTime{});
  const auto* suspended = api::find_condition(job.status.conditions, "Suspended");
  if (suspended == nullptr || suspended->reason != "Resumed") return created;
  return std::max(created, suspended->last_transition.value_or(created));
}

bool is_releasing(const Snapshot& snapshot) {
  const auto* answer = answer_of(snapshot);
  return answer != nullptr && answer->release && may_release(snapshot);
}

// A pod that does not fit what places the pods of the job. Kube-scheduler would bind one without a reserved node to any
// node; one with our gate would never be bound.
bool is_stray(const Snapshot& snapshot, const api::Pod& pod) {
  return snapshot.placing ? pod.reserved_node.empty() : !pod.reserved_node.empty() || our_gate(pod);
}

// The pod is to be deleted and created again. One that is bound and not refused is never touched.
bool is_to_be_replaced(const Snapshot& snapshot, const SlotView& slot) {
  if (!has_seat(slot) || slot.pod->meta.deleted) return false;
  const bool bound = !slot.pod->node_name.empty();
  if (bound && !slot.refused) return false;
  if (!bound && is_stray(snapshot, *slot.pod)) return true;
  const auto* answer = answer_of(snapshot);
  if (answer == nullptr) return false;
  const auto& named = answer->replace;
  return std::find(named.begin(), named.end(), placed_name(snapshot.job->meta, slot.pod->meta.name)) != named.end();
}

}  // namespace

bool wants_nodes(const Snapshot& snapshot) {
  const auto& job = *snapshot.job;
  if (job.meta.deleted || is_finished(job.status)) return false;
  if (job.spec.suspend || api::is_true(job.status.conditions, "Suspended")) return false;
  return !is_let_go(job.status);
}

placement::Gang gang_of(const Snapshot& snapshot) {
  const auto& job = *snapshot.job;
  if (!job.status.slots) return gang_of(with_troubles(snapshot));
  if (!snapshot.placing) {
    Snapshot placed = snapshot;
    placed.placing.emplace();
    return gang_of(placed);
  }
  const std::int64_t incarnation = std::max<std::int64_t>(known_incarnation(snapshot), 1);
  const Survey pods = survey(snapshot, incarnation, job.status.released, has_unhandled(snapshot, job.status));
  placement::Gang gang;
  gang.key = job.meta.uid;
  gang.name = placed_name(job.meta, job.meta.name);
  gang.since = in_queue_since(job);
  gang.pods = job.spec.nodes;
  gang.whole = std::max(api::fewest_nodes(job.spec), 1);
  gang.spares = job.spec.spares;
  gang.may_release = may_release(snapshot);
  gang.held_for = held_for(snapshot, pods);
  gang.avoid = nodes_to_avoid(troubles_of(job.status), snapshot.now);
  // A loss that is not handled yet begins a round.
  const auto lost = [](const SlotView& slot) { return slot.state == SlotState::kLost; };
  const bool begins_round =
      std::any_of(pods.slots.begin(), pods.slots.end(), [&](const auto& slot) { return lost(slot) && !slot.outside; });
  bool any_bound = false;
  for (const SlotView& slot : pods.slots) {
    const bool next = begins_round || lost(slot);
    gang.seats.push_back(seat_of(slot, job, next ? next_incarnation(snapshot) : incarnation));
    any_bound = any_bound || gang.seats.back().state == SeatState::kBound;
  }
  gang.ending = ending_of(snapshot);
  if (const auto slot = slot_that_needs_a_node(snapshot, pods)) {
    const api::Pod& leaves = *pods.slots.at(static_cast<std::size_t>(*slot)).pod;
    gang.successors = {{.slot = *slot,
                        .pod = placed_name(job.meta, pod_name(job, *slot, next_incarnation(snapshot))),
                        .from = leaves.node_name}};
  }
  gang.running = job.status.start_time && job.spec.restart.strategy != api::RestartStrategy::kGang && any_bound;
  return gang;
}

bool is_replacing(const Snapshot& snapshot, const Survey& gang) {
  return is_releasing(snapshot) || std::any_of(gang.slots.begin(), gang.slots.end(), [&](const SlotView& slot) {
           return slot.refused || is_to_be_replaced(snapshot, slot);
         });
}

bool release_gang(const Snapshot& snapshot, const Survey& gang, api::TrainingJobStatus& status, Plan& plan) {
  if (!is_releasing(snapshot)) return false;
  std::vector<const api::Pod*> there;
  bool newest = false;  // a deleted pod of the newest round would be a loss
  for (const SlotView& slot : gang.slots) {
    if (!has_seat(slot)) continue;
    there.push_back(slot.pod);
    newest = newest || slot.incarnation == status.incarnation;
  }
  if (newest) {
    status.incarnation = next_incarnation(snapshot);
    plan.events.push_back({true, "GangReleased", "Release", "not all pods of the gang could be bound in time"});
  }
  delete_pods(snapshot, there, "the gang is released", plan);
  return true;
}

std::vector<PodToCreate> creates_with_nodes(const Snapshot& snapshot, std::int64_t incarnation,
                                            std::vector<PodToCreate> missing, Plan& plan) {
  if (!snapshot.placing || missing.empty()) return missing;
  if (incarnation != snapshot.job->status.incarnation) {
    plan.look_again_in(Duration::zero());  // with the answer for the new round
    return {};
  }
  std::vector<PodToCreate> placed;
  const auto* answer = answer_of(snapshot);
  if (answer == nullptr || answer->release) return placed;
  for (PodToCreate& pod : missing) {
    const auto node = answer->nodes.find(pod.slot);
    if (node == answer->nodes.end() || node->second.empty()) continue;
    pod.avoid_nodes.clear();
    pod.node = node->second;
    pod.gated = answer->gated;
    placed.push_back(std::move(pod));
  }
  return placed;
}

void plan_placed_pods(const Snapshot& snapshot, const Survey& gang, std::int64_t incarnation, Plan& plan) {
  if (is_releasing(snapshot)) return;
  const auto* answer = answer_of(snapshot);
  const bool stored = incarnation == snapshot.job->status.incarnation;
  for (const SlotView& slot : gang.slots) {
    if (!has_seat(slot)) continue;
    const api::Pod& pod = *slot.pod;
    if (is_to_be_replaced(snapshot, slot)) {
      plan.deletes.push_back({.name = pod.meta.name,
                              .uid = pod.meta.uid,
                              .grace_period_seconds = {},
                              .why = "it is placed again",
                              .resource_version = pod.meta.resource_version});
      continue;
    }
    const auto gate = our_gate(pod);
    if (answer == nullptr || answer->release || !stored || !gate || !pod.node_name.empty()) continue;
    const auto node = answer->nodes.find(slot.slot);
    if (node == answer->nodes.end() || node->second.empty()) continue;
    if (pod.reserved_node != node->second) {
      plan.moves.push_back({pod.meta.name, pod.meta.uid, pod.reserved_node, node->second});
    } else if (answer->open) {
      plan.opens.push_back({.name = pod.meta.name,
                            .uid = pod.meta.uid,
                            .slot = slot.slot,
                            .node = pod.reserved_node,
                            .gate = *gate,
                            .has_node_affinity = pod.has_node_affinity});
    }
  }
}

}  // namespace lockstep::job
