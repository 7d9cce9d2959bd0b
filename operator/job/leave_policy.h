// Members that leave because their node, or a device of theirs, is sick. While such a pod still computes, it goes as
// any deleted pod does: after a step on which all ranks agree, without a charge. When a process of it fails, it goes at
// once.
#pragma once

#include <optional>
#include <string>

#include "operator/job/course.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

// A sign has to last for this long, so that signs of many nodes at once are seen as such.
inline constexpr auto kSignLasts = std::chrono::seconds(5);

// Tells one sick member to leave, if enough others are there to go on without it (a spare, or minNodes of an elastic
// job). It leaves as well if placement has reserved a node for its successor. It stays if no other member has the state
// and the job saves no checkpoints. A sick spare goes in any case. The next one, wherever its node is, follows when a
// generation without the first is up. A pod stays for stays_for() on a node that another one left. Nobody leaves a
// foreign program's gang, which would restart as a whole. The plan's notice says which pod stays because its sign is
// doubted, or because the gang cannot go on without it.
Course leave_sick(const Snapshot& snapshot, Course course);

// Stores that the slot's pod leaves its node for a sign. Returns the sign, as half a sentence, and how many nodes the
// job left lately if this is not the first.
std::string note_departure(const Snapshot& snapshot, const SlotView& slot, const Sickness& sick,
                           api::TrainingJobStatus& status);
// The slot's pod, if it has one, is one of those that leave from now on, and its place is empty.
void release_sick(int slot, Survey& gang);

// Why the slot's pod is replaced if a process of it failed or hung: the process would start again on what is sick.
// Null: nothing is, its sign is doubted, or the pod stays for stays_for(). Null as well if its slot has left a node
// before: the program may be what makes nodes sick. Owned by the snapshot.
const Sickness* sickness_behind(const Snapshot& snapshot, const api::TrainingJobStatus& status, const SlotView& slot);

// The slot whose member would leave now if a node were reserved for its successor. Empty: none, or it leaves without.
std::optional<int> slot_that_needs_a_node(const Snapshot& snapshot, const Survey& gang);

}  // namespace lockstep::job
