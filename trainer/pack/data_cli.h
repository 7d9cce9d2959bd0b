// The `lockstep data` command: flags, help and dispatch of lockstep-data, which it runs.
#pragma once

namespace lockstep::trainer::pack {

// Exit status: 0; 1 for a failure, with one sentence on standard error; 2 for wrong usage; 128 + the number of the
// signal that stopped it. Handles SIGINT, SIGTERM and SIGHUP from then on; the second one ends the process at once.
int run_data_cli(int argc, const char* const* argv);

}  // namespace lockstep::trainer::pack
