// The options of `lockstep run`, and how they change the job. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "operator/cli/chaos_schedule.h"

namespace lockstep::cli {

// "--kill-worker 2@100": SIGKILL for the process of rank 2 once the job has committed step 100.
struct WorkerKill {
  int rank = 0;
  std::int64_t step = 0;

  bool operator==(const WorkerKill&) const = default;
};

struct RunOptions {
  std::string file;
  std::optional<int> workers;  // instead of spec.nodes
  std::vector<WorkerKill> kills;
  std::optional<ChaosWish> chaos;
  std::string data;                       // --data of the program
  bool deterministic = false;             // --deterministic for the program
  std::vector<std::string> settings;      // "spec.path=value"
  std::vector<std::string> program_args;  // after "--"
  std::string output;                     // folder; "": lockstep-runs/<job>-<time>
  bool logs = false, quiet = false, json = false;
};

// kInvalid with a sentence if the text is not RANK@STEP.
Result<WorkerKill> parse_worker_kill(const std::string& text);

// Sets one field of a job by "spec.restart.maxRestarts=3"; the value is JSON, else text. Numbers index lists. kInvalid
// if the path does not begin with spec. or metadata., or crosses a value that is no object or list.
Status apply_setting(nlohmann::json& job, const std::string& setting);

// Puts --workers, --data, --deterministic, --set and the program's own arguments into the job as if its file had them.
// An argument "--name=value" replaces the job's own value for that flag, if there is one.
Status apply_run_options(nlohmann::json& job, const RunOptions& options);

// The folder of the program's ledger, from which chaos gets its times and its verdict. It is that of the job's own
// --ledger, else "<folder>/ledger", which is added for lockstep-trainer. kInvalid for other programs.
Result<std::string> ledger_of(nlohmann::json& job, const std::string& folder);

// What a machine does for spec.gpusPerNode, in one sentence; "" if the job asks for no GPU.
std::string gpu_note(const nlohmann::json& job, bool machine_has_gpu);

// Removes from the job the fields that a machine without a cluster does not apply; returns their names, for one
// sentence. `folder` is the run's; checkpoint.path becomes its checkpoints/. kInvalid: it cannot be run (spec.suspend).
Result<std::vector<std::string>> fit_to_machine(nlohmann::json& job, const std::string& folder);

}  // namespace lockstep::cli
