// The end of a job: when it has succeeded or is out of time, and what is left of it afterwards (cleanPodPolicy,
// ttlSecondsAfterFinished). Succeeded and Failed are never left.
#pragma once

#include <optional>
#include <string>

#include "operator/job/plan.h"
#include "operator/job/pod_policy.h"
#include "operator/job/snapshot.h"

namespace lockstep::job {

bool is_finished(const api::TrainingJobStatus& status);

// Every rank of a generation that nobody has dealt with ended with 0, or every pod of the gang did.
bool has_succeeded(const Snapshot& snapshot, const Survey& survey, std::int64_t handled_generation);

// When deadlines.activeSeconds are over; empty when there is none or the job has not started.
std::optional<WallTime> active_deadline(const api::TrainingJob& job, const api::TrainingJobStatus& status);

// What remains to do for a finished job: end its processes, then its pods, then (ttl) the job itself.
void clean_up(const Snapshot& snapshot, Plan& plan);

}  // namespace lockstep::job
