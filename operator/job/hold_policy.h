// An elastic gang of which fewer than elastic.minNodes are left waits, and its processes hold in memory what they have.
// After elastic.holdSeconds they save it and end, and all pods of the job are released; new ones are made, and when
// enough of them run, the job goes on from that checkpoint. Without checkpoint.path nothing would be left, so such a
// job holds on.
#pragma once

#include "operator/job/plan.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

// Reason of condition Restarting while a job lets go of its pods.
inline constexpr const char* kBelowMinimum = "BelowMinimum";

// The job lets go of its pods, by its stored status.
bool is_let_go(const api::TrainingJobStatus& status);

// True when the job lets go, and must not run now: the plan is then complete but for the summary of the status.
bool apply_hold(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan);

}  // namespace lockstep::job
