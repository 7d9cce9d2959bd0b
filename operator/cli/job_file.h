// Job files from disk or standard input, checked; every problem as a line for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::cli {

struct CheckedJob {
  nlohmann::json job;
  std::vector<std::string> problems;  // "job.yaml:12:7: spec.nodes: must be at least 1", in the order of the file
};

// Reads and checks a file; "-" is standard input. kNotFound, kForbidden, kUnavailable or kInvalid (a folder, too big):
// it cannot be read. Mistakes inside are in `problems`.
Result<CheckedJob> read_checked_job(const std::string& path);

// A file whose job must be valid: kInvalid with all problems, a line each, otherwise.
Result<nlohmann::json> read_valid_job(const std::string& path);

// The same checks on a job that was changed since (--set): "spec.nodes: must be at least 1".
std::vector<std::string> problems_of(const nlohmann::json& job);

}  // namespace lockstep::cli
