// spec.nodes of an elastic job that is changed while it runs (kubectl scale), and spares.nodes of any. New slots get
// pods of the present round. Surplus slots are released: their pods are deleted in order, and leave after a step on
// which all ranks agree. Neither that nor anything else that happens to them is a failure. Which pods are released is
// stored in the status before the first of them is deleted. A new round begins with it, so a slot that is wanted again
// never shares a name with the pod that left it.
#pragma once

#include <string>
#include <vector>

#include "operator/job/plan.h"
#include "operator/job/pod_policy.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

// Whether that pod leaves.
bool is_released(const std::vector<api::Release>& released, const PodIdentity& pod);

// Takes note of a change of spec.nodes in `status`, tells of it by an event, and releases what is surplus. To release a
// pod is to move it from survey.surplus to survey.released. Pods without which too few would train stay until others
// are there.
void apply_scale(const Snapshot& snapshot, Survey& survey, api::TrainingJobStatus& status, Plan& plan);

}  // namespace lockstep::job
