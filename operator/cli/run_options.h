// What `lockstep run` was asked for, and how that changes the job. Pure.
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

// kInvalid with a sentence when the text is not RANK@STEP.
Result<WorkerKill> parse_worker_kill(const std::string& text);

// Sets one field of a job by "spec.restart.maxRestarts=3"; the value is JSON, else text. Numbers index lists. kInvalid
// when the path does not begin with spec. or metadata., or goes through something that is no object or list.
Status apply_setting(nlohmann::json& job, const std::string& setting);

// --workers, --data, --deterministic, --set and the program's own arguments, put into the job as if its file said so.
// An argument "--name=value" takes the place of the job's own value for that flag, where it has one.
Status apply_run_options(nlohmann::json& job, const RunOptions& options);

// Where the job's program is to keep its ledger, so that chaos can be timed and judged by it: the folder of its own
// --ledger, else "<folder>/ledger", which is added for lockstep-trainer. kInvalid for other programs.
Result<std::string> ledger_of(nlohmann::json& job, const std::string& folder);

// What a machine without a cluster does not apply, taken out of the job: names of fields, for one sentence. `folder`
// is the run's; checkpoint.path becomes its checkpoints/. kInvalid for what cannot be run (spec.suspend).
Result<std::vector<std::string>> fit_to_machine(nlohmann::json& job, const std::string& folder);

}  // namespace lockstep::cli
