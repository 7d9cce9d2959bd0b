// Members that leave because their node, or a device of theirs, is sick. Such a pod still computes, so it goes as any
// deleted pod does: after a step on which all ranks agree, without a charge.
#pragma once

#include <optional>

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

// The slot whose member would leave now if a node were reserved for its successor. Empty: none, or it leaves without.
std::optional<int> slot_that_needs_a_node(const Snapshot& snapshot, const Survey& gang);

}  // namespace lockstep::job
