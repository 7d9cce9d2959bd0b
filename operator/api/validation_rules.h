// The CEL rules of manifests/crd.yaml in C++, for checks without an API server. Private to this room and its tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace lockstep::api {

struct ValidationRule {
  const char* place;    // in the schema: "spec.env[].name", "spec.resources.limits{}"; "" is the root
  const char* message;  // the CRD's, verbatim
  const char* field;    // fieldPath of the CRD below `place`, without its first dot; "" is the place itself
  // `self` has its defaults filled in, but may be of any type: another check reports a wrong type, and here it passes.
  bool (*holds)(const nlohmann::json& self);
};

const std::vector<ValidationRule>& validation_rules();

}  // namespace lockstep::api
