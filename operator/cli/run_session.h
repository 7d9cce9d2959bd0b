// One `lockstep run`: the object store, the controller with its coordinator, and the runtime in this process, a display
// for the user, and their shutdown.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/cli/chaos_run.h"
#include "operator/cli/display.h"
#include "operator/cli/run_options.h"
#include "operator/local/pod_process.h"

namespace lockstep::cli {

struct RunPlan {
  nlohmann::json job;  // as it is created: validated, with the options applied, fitted to the machine
  RunOptions options;
  local::Machine machine;            // machine.folder exists
  std::vector<std::string> dropped;  // fields that are not applied
  std::string gpu_note;              // what the machine does for spec.gpusPerNode; "" if none are asked for
  std::optional<ChaosPlan> chaos;
  // Null: the session introduces the run, displays it as the options ask, and reports how it ended. Else it leaves the
  // first and the last to the owner of this display, which outlives the session.
  Display* display = nullptr;
};

struct SessionEnd {
  int status = 0;  // of the command: the job's, or 128 + the signal that stopped the session
  int signal = 0;  // that this process received; 0: none, though a worker may have ended by one
};

// Runs the job to its end, prints to standard output, and returns how it ended. Call it inside run_guarded(): a second
// signal ends this process at once and leaves the rest to the guard.
SessionEnd run_session(const RunPlan& plan);

}  // namespace lockstep::cli
