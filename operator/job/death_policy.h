// Nodes that other tools call dead by a sign. Such a node counts as lost, though its kubelet and the agents of its pods
// may speak. The coordinator tells such an agent that it has lost its slot, as it tells that of any lost pod. The agent
// ends its processes.
#pragma once

#include <string>

#include "operator/job/course.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

// The sign by which the pod is lost with its node, owned by the snapshot; null: it is not. A pod that succeeded is not
// lost. Nor is one that came to the node after another pod of the job had been lost there, for ten minutes. No other
// node had room, so its successor would come there, too.
const std::string* death_of(const Snapshot& snapshot, const api::Pod& pod);

// Stores which pods are lost by such a sign, in one decision for all pods of a node: their successors go elsewhere. One
// that stays is looked at again when it may be lost.
Course note_deaths(const Snapshot& snapshot, Course course);

}  // namespace lockstep::job
