// What is known of pods in trouble: status.slots. An entry is stored with the attempt that tells of it, and outlives
// that attempt, because the list of attempts is cut.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "operator/job/snapshot.h"

namespace lockstep::job {

// The stored entries of a job; none when nothing is stored.
const std::vector<api::SlotStatus>& troubles_of(const api::TrainingJobStatus& status);

// The entry about the pod in that trouble; null when there is none.
const api::SlotStatus* find_trouble(const api::TrainingJobStatus& status, api::SlotTrouble trouble,
                                    const std::string& pod);

// Stores `entry` in place of what was known of its pod. The oldest entry goes if the API server would refuse more.
void add_trouble(api::SlotStatus entry, api::TrainingJobStatus& status);

// Stores what `attempt` says of its pod. Most attempts say nothing.
void note_trouble(const Snapshot& snapshot, const api::Attempt& attempt, api::TrainingJobStatus& status);

// Drops entries whose pod is gone, or is a member of a later generation. That of a pod whose node is avoided stays for
// as long as that lasts, that of a silent one until its loss is told. An entry of the future is dated now: the clock
// was set back, and its wait begins again.
void forget_troubles(const Snapshot& snapshot, api::TrainingJobStatus& status);

// A snapshot of a job whose status an earlier version wrote: what its attempts say of pods is stored in it.
Snapshot with_troubles(const Snapshot& snapshot);

// The nodes of pods that were partitioned, unhealthy, or lost by a sign, for ten minutes, each once. New pods of the
// job go elsewhere if they can.
std::vector<std::string> nodes_to_avoid(const std::vector<api::SlotStatus>& slots, WallTime now);

// How many nodes pods of the job have left for a sign within ten minutes.
std::size_t nodes_left(const std::vector<api::SlotStatus>& slots, WallTime now);

// Whether an earlier pod of the slot left its node for a sign within ten minutes.
bool has_left(const std::vector<api::SlotStatus>& slots, int slot, const std::string& pod, WallTime now);

// For how long the pod stays on its node, whatever sign that has. A sign took an earlier pod of the job from that node,
// with one of the troubles in `after`. The job has avoided the node since, so no other had room: the next pod would
// come there, too. Zero: it need not stay.
Duration stays_for(const api::TrainingJobStatus& status, const api::Pod& pod, WallTime now,
                   std::initializer_list<api::SlotTrouble> after);

}  // namespace lockstep::job
