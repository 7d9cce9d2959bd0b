// What the API server would say about a TrainingJob, said without one. Types, ranges, required and unknown fields come
// from the CRD's own schema. The CRD's CEL rules are written once more in C++. A test holds the two sets of rules
// together.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/yaml_document.h"

namespace lockstep::api {

struct Problem {
  std::string path;      // "spec.nodes"; "" for the document as a whole
  std::string sentence;  // "must be at least 1"
  Position at;           // in the file it came from; 0, 0 when it came from none

  // "spec.nodes: must be at least 1"
  std::string text() const { return path.empty() ? sentence : path + ": " + sentence; }
};

// All problems of a job (at most a hundred), in the order of the schema; none when the API server would take it.
// Changes of a job that runs already are the server's to judge.
std::vector<Problem> validate(const nlohmann::json& job);

// A job file: its JSON, and its problems with their places, in the order of the file. A file that is not YAML has
// exactly one problem.
struct JobFile {
  nlohmann::json json;
  std::vector<Problem> problems;
};
JobFile read_job_file(std::string_view text);

}  // namespace lockstep::api
