#include "operator/job/death_policy.h"

#include "operator/job/job_status.h"
#include "operator/job/slot_troubles.h"

namespace lockstep::job {

using api::SlotTrouble;

const std::string* death_of(const Snapshot& snapshot, const api::Pod& pod) {
  const auto sign = snapshot.dead_nodes.find(pod.node_name);
  if (sign == snapshot.dead_nodes.end() || pod.phase == "Succeeded") return nullptr;
  const auto& status = snapshot.job->status;
  const bool told = find_trouble(status, SlotTrouble::kNodeLost, pod.meta.name) != nullptr;
  return told || stays_for(status, pod, snapshot.now, {SlotTrouble::kNodeLost}) <= Duration::zero() ? &sign->second
                                                                                                    : nullptr;
}

Course note_deaths(const Snapshot& snapshot, Course course) {
  if (!snapshot.view) return course;
  for (const SlotView& slot : course.gang.slots) {
    if (slot.pod == nullptr) continue;
    if (slot.state == SlotState::kLive && snapshot.dead_nodes.count(slot.pod->node_name) != 0) {
      const Duration left = stays_for(snapshot.job->status, *slot.pod, snapshot.now, {SlotTrouble::kNodeLost});
      if (left > Duration::zero()) course.plan.look_again_in(left);
    }
    if (slot.state != SlotState::kLost) continue;
    const std::string* sign = death_of(snapshot, *slot.pod);
    // What is known of it already outlives this, and the attempt that tells of a silence stores the rest.
    const bool known = find_trouble(course.status, SlotTrouble::kNodeLost, slot.pod->meta.name) != nullptr ||
                       find_silence(course.status, slot) != nullptr;
    if (sign == nullptr || known) continue;
    add_trouble({.slot = slot.slot,
                 .trouble = SlotTrouble::kNodeLost,
                 .pod = slot.pod->meta.name,
                 .node = slot.pod->node_name,
                 .since = whole_seconds(snapshot.now),
                 .generation = snapshot.view->generation,
                 .sign = *sign},
                course.status);
  }
  return course;
}

}  // namespace lockstep::job
