// `lockstep run`: from the command line to a session under its guard.
#pragma once

#include "operator/base/result.h"
#include "operator/cli/run_options.h"
#include "operator/cli/run_session.h"

namespace lockstep::cli {

// What a valid job needs to run on this machine with these options (options.file is not read). Checks everything that
// can be known before the first process starts, and creates the folder of the run. kInvalid, kNotFound, kUnavailable
// with a sentence for the user. Call it before the session's threads exist.
Result<RunPlan> plan_run(nlohmann::json job, const RunOptions& options);

// Checks everything that can be known before the first process starts, creates the folder of the run, and runs the job.
// Call it before any thread exists. Returns the exit status; sentences for the user go to standard error.
int run_command(const RunOptions& options);

}  // namespace lockstep::cli
