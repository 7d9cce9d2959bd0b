// The `lockstep` command: flags, help and the choice of what to do.
#pragma once

namespace lockstep::cli {

// Exit status: 0, 1 for a failure (one sentence on standard error), 2 for wrong usage, or what the job ended with.
int run_cli(int argc, const char* const* argv);

}  // namespace lockstep::cli
