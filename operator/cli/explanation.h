// `lockstep explain`: what happened to a job, attempt by attempt. Pure.
#pragma once

#include <string>

#include "operator/api/training_job.h"
#include "operator/base/clock.h"

namespace lockstep::cli {

// For people: the state of the job at `now`. Each stored attempt (the last ten) has a row. It says which rank failed
// first, what the operator did and by which rule, and the milliseconds of each phase of the recovery.
std::string explanation(const api::TrainingJob& job, WallTime now);

// Whether pods of the job have no node, and it wants some.
bool waits_for_nodes(const api::TrainingJob& job);

}  // namespace lockstep::cli
