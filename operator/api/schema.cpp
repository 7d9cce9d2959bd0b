#include "operator/api/schema.h"

#include "operator/api/lookup.h"
#include "operator/api/yaml_document.h"

namespace lockstep::api {
namespace {

using Json = nlohmann::json;

// The embedded file is known at build time, so a failure here is a failure of the build's tests.
Json read_crd() {
  auto document = parse_yaml(kCrdYaml);
  return document ? document->json : Json();
}

void fill_in(Json& value, const Json& schema) {
  if (value.is_array() && schema.contains("items")) {
    for (Json& item : value) fill_in(item, schema["items"]);
  }
  if (!value.is_object()) return;
  for (const auto& [name, field] : at(schema, "properties").items()) {
    const auto it = value.find(name);
    const bool absent = it == value.end() || it->is_null();
    if (absent && field.contains("default")) value[name] = field["default"];
    if (value.contains(name)) fill_in(value[name], field);
  }
  if (const Json& more = at(schema, "additionalProperties"); more.is_object()) {
    for (auto& [name, item] : value.items()) fill_in(item, more);
  }
}

}  // namespace

const Json& crd() {
  static const Json json = read_crd();
  return json;
}

const Json& training_job_schema() {
  static const Json schema = [] {
    for (const Json& version : at(at(crd(), "spec"), "versions")) {
      if (at(version, "name") == "v1alpha1") return at(at(version, "schema"), "openAPIV3Schema");
    }
    return Json();
  }();
  return schema;
}

Json with_defaults(Json object) {
  fill_in(object, training_job_schema());
  return object;
}

}  // namespace lockstep::api
