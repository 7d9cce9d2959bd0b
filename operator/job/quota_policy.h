// A quota may have room for a part of a gang only. The part holds GPUs and trains nothing, and two gangs that hold a
// half each wait for ever. So the pods that were created are released at once, and the whole gang is tried again later.
#pragma once

#include <optional>

#include "operator/job/plan.h"
#include "operator/job/pod_policy.h"
#include "operator/job/snapshot.h"
#include "operator/job/startup_policy.h"

namespace lockstep::job {

// Releases the pods of a gang that a quota refused in part: a new round begins, the plan deletes the pods, and
// `blocker` says so. Only where fewer pods are there than the job can train with, and no process holds a state. True:
// nothing is created by this plan.
bool release_for_quota(const Snapshot& snapshot, const Survey& gang, api::TrainingJobStatus& status,
                       std::optional<Blocker>& blocker, Plan& plan);

}  // namespace lockstep::job
