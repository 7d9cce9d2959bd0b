// `lockstep run`: from the command line to a session under its guard.
#pragma once

#include "operator/cli/run_options.h"

namespace lockstep::cli {

// Checks everything that can be known before the first process starts, creates the folder of the run, and runs the job.
// Call it before any thread exists. Returns the exit status; sentences for the user go to standard error.
int run_command(const RunOptions& options);

}  // namespace lockstep::cli
