// `lockstep explain`: what happened to a job, attempt by attempt. Pure.
#pragma once

#include <string>

#include "operator/api/training_job.h"
#include "operator/base/clock.h"

namespace lockstep::cli {

// For people: how the job stands at `now`, and for each attempt that is stored (the last ten) who was first, what was
// done about it and by which rule, and where the time of the recovery went, in milliseconds.
std::string explanation(const api::TrainingJob& job, WallTime now);

}  // namespace lockstep::cli
