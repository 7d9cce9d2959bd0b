// The `lockstep` command: flags, help and dispatch.
#pragma once

namespace lockstep::cli {

// Exit status: 0, 1 for a failure (one sentence on standard error), 2 for wrong usage, or that of the job.
int run_cli(int argc, const char* const* argv);

}  // namespace lockstep::cli
