// Label and field selectors of list and watch, in the grammar of the API server.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::local {

// One parsed selector pair; copyable, immutable after parse(). Any thread.
class Selector {
 public:
  // Reads both selectors; empty ones match everything. Labels: `a`, `!a`, `a=b`, `a==b`, `a!=b`, `a in (b,c)`,
  // `a notin (b,c)`, joined by commas. Fields: `path=value`, `path==value`, `path!=value` for metadata.name,
  // metadata.namespace, spec.nodeName and status.phase. kInvalid for anything else.
  static Result<Selector> parse(const std::string& labels, const std::string& fields);

  // Whether the object has these labels and fields. A missing field counts as "".
  bool matches(const nlohmann::json& object) const;

 private:
  struct Requirement {
    std::string key;
    enum class Kind { kExists, kAbsent, kIn, kNotIn } kind;
    std::vector<std::string> values;
  };
  static bool meets(const Requirement& requirement, const std::string* value);
  static Result<std::vector<Requirement>> parse_labels(const std::string& text);
  static Result<std::vector<Requirement>> parse_fields(const std::string& text);

  std::vector<Requirement> labels_;
  std::vector<Requirement> fields_;
};

}  // namespace lockstep::local
