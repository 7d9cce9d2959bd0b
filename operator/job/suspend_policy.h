// spec.suspend: first the processes stop together after a checkpoint, then the pods go; a resumed job starts with pods
// of a new incarnation, and only when the old ones are gone.
#pragma once

#include "operator/job/plan.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

// Moves a job towards suspension, or out of it. True when the job must not run now: the plan is then complete but for
// the summary of the status.
bool apply_suspend(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan);

}  // namespace lockstep::job
