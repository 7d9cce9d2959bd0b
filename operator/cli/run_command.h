// `lockstep run`: from the command line to a session behind its guard.
#pragma once

#include "operator/cli/run_options.h"

namespace lockstep::cli {

// Checks everything that can be known before the first process starts, makes the folder of the run, and runs the job.
// Call before any thread exists. Returns the exit status; sentences for the person are on standard error.
int run_command(const RunOptions& options);

}  // namespace lockstep::cli
