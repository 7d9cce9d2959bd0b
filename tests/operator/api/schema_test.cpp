#include "operator/api/schema.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <set>

#include "operator/api/lookup.h"
#include "operator/api/training_job.h"

namespace lockstep::api::schema_test {
namespace {

// Calls `visit` for every schema below `schema`, with its place.
void walk(const Json& schema, const std::string& place,
          const std::function<void(const std::string&, const Json&)>& visit) {
  visit(place, schema);
  for (const auto& [key, field] : at(schema, "properties").items()) walk(field, place + "." + key, visit);
  if (const Json& items = at(schema, "items"); items.is_object()) walk(items, place + "[]", visit);
  if (const Json& more = at(schema, "additionalProperties"); more.is_object()) walk(more, place + "{}", visit);
}

const Json& spec_schema() {
  return at(at(training_job_schema(), "properties"), "spec");
}

TEST(Crd, fits_the_annotation_that_kubectl_apply_keeps) {
  EXPECT_LT(std::strlen(kCrdYaml), 200u * 1024);
}

TEST(Crd, every_field_has_a_type_and_a_sentence) {
  walk(training_job_schema(), "", [](const std::string& place, const Json& schema) {
    const bool int_or_string = at(schema, "x-kubernetes-int-or-string") == true;
    EXPECT_TRUE(at(schema, "type").is_string() || int_or_string) << place;
    if (place == ".metadata") return;  // a CRD may not describe it
    const std::string text = text_of(at(schema, "description"));
    EXPECT_GT(text.size(), 8u) << place;
    EXPECT_EQ(text.empty() ? '.' : text.back(), '.') << place << ": " << text;
  });
}

// Without limits the API server would refuse the rules as too expensive, or accept values that no code expects.
TEST(Crd, everything_in_spec_is_bounded) {
  walk(spec_schema(), "spec", [](const std::string& place, const Json& schema) {
    const std::string type = text_of(at(schema, "type"));
    if (type == "integer") {
      EXPECT_TRUE(schema.contains("minimum") && schema.contains("maximum") && schema.contains("format")) << place;
    }
    if (type == "array") {
      EXPECT_TRUE(schema.contains("maxItems")) << place;
    }
    if (schema.contains("additionalProperties")) {
      EXPECT_TRUE(schema.contains("maxProperties")) << place;
    }
    if (type == "string") {
      EXPECT_TRUE(schema.contains("maxLength") || schema.contains("enum")) << place;
    }
  });
}

TEST(Crd, enum_values_are_camel_case) {
  walk(spec_schema(), "spec", [](const std::string& place, const Json& schema) {
    for (const Json& value : at(schema, "enum")) {
      const std::string name = text_of(value);
      EXPECT_TRUE(!name.empty() && name[0] >= 'A' && name[0] <= 'Z' && name.find_first_of("-_ ") == std::string::npos)
          << place << ": " << name;
    }
  });
}

TEST(Crd, its_defaults_are_those_of_the_structs) {
  const Json job = Json::parse(R"({"spec": {"image": "i", "command": ["c"], "nodes": 1, "restart": {"rules": [{}]}}})");
  const auto by_structs = parse_training_job(job), by_schema = parse_training_job(with_defaults(job));
  ASSERT_TRUE(by_structs && by_schema);
  EXPECT_EQ(to_json(by_structs->spec), to_json(by_schema->spec));
  // and the schema's say everything that the structs would write
  Json defaults = with_defaults(job)["spec"];
  EXPECT_EQ(to_json(by_structs->spec), defaults) << Json::diff(to_json(by_structs->spec), defaults).dump(2);
}

// A field is in the CRD only when code reads it: each one, changed, must change what is parsed.
TEST(Crd, every_field_of_spec_is_read) {
  Json job{{"spec", with_defaults(Json::parse(R"({"spec": {"image": "i", "command": ["c"], "nodes": 1}})"))["spec"]}};
  const auto value_for = [](const Json& schema) -> Json {
    const std::string type = text_of(at(schema, "type"));
    if (type == "integer") return 7;
    if (type == "boolean") return at(schema, "default") != true;
    if (type == "array")
      return Json::array({text_of(at(at(schema, "items"), "type")) == "integer"  ? Json(7)
                          : text_of(at(at(schema, "items"), "type")) == "object" ? Json{{"name", "x"}}
                                                                                 : Json("x")});
    if (type == "object") return Json{{"x", "y"}};
    if (const Json& names = at(schema, "enum"); names.is_array())
      return names.back() == at(schema, "default") ? names[0] : names.back();
    return "x";
  };
  const std::set<std::string> passed_on{"/spec/resources", "/spec/podTemplate", "/spec/rendezvous/env"};
  const std::function<void(const Json&, const std::string&)> check = [&](const Json& schema, const std::string& place) {
    for (const auto& [key, field] : at(schema, "properties").items()) {
      const std::string here = place + "/" + key;
      if (field.contains("properties") && passed_on.count(here) == 0) {
        check(field, here);
        continue;
      }
      Json changed = job;
      changed[Json::json_pointer(here)] = value_for(field);
      const auto before = parse_training_job(job), after = parse_training_job(changed);
      ASSERT_TRUE(before && after) << here << (after ? "" : after.error().message);
      EXPECT_NE(to_json(before->spec), to_json(after->spec)) << here << " is in the CRD, but nothing reads it";
    }
  };
  check(spec_schema(), "/spec");
}

// Fields that shape the pods cannot change while the gang runs; the rest may, at any time.
TEST(Crd, every_field_of_spec_is_free_to_change_or_protected) {
  const std::set<std::string> free{
      "elastic", "spares", "restart", "deadlines", "suspend", "ttlSecondsAfterFinished", "cleanPodPolicy"};
  std::set<std::string> guarded;
  for (const Json& rule : at(spec_schema(), "x-kubernetes-validations")) {
    if (text_of(at(rule, "rule")).find("oldSelf.suspend || ") != 0) continue;
    const std::string field = text_of(at(rule, "fieldPath")).substr(1);
    guarded.insert(field);
    EXPECT_NE(text_of(at(rule, "rule")).find("self." + field + " == oldSelf." + field), std::string::npos);
    const std::string which = field == "nodes" ? "a job without elastic" : "the job";
    EXPECT_EQ(text_of(at(rule, "message")),
              field + " cannot be changed while " + which + " runs; set spec.suspend to true first");
  }
  for (const auto& [key, field] : at(spec_schema(), "properties").items()) {
    EXPECT_NE(free.count(key) != 0, guarded.count(key) != 0) << key;
  }
}

TEST(Crd, has_short_name_category_status_and_columns) {
  const Json& spec = at(crd(), "spec");
  EXPECT_EQ(at(spec, "names")["shortNames"], Json::array({"tj"}));
  EXPECT_EQ(at(spec, "names")["categories"], Json::array({"all"}));
  const Json& version = at(spec, "versions")[0];
  EXPECT_EQ(at(version, "subresources")["status"], Json::object());
  EXPECT_EQ(at(version, "subresources")["scale"], (Json{{"specReplicasPath", ".spec.nodes"},
                                                        {"statusReplicasPath", ".status.nodes.ready"},
                                                        {"labelSelectorPath", ".status.selector"}}));
  std::string usual, wide;
  for (const Json& column : at(version, "additionalPrinterColumns")) {
    (column.contains("priority") ? wide : usual) += text_of(at(column, "name")) + " ";
    // every column shows a field that is there
    const Json* schema = &training_job_schema();
    std::istringstream path(text_of(at(column, "jsonPath")).substr(1));
    for (std::string step; std::getline(path, step, '.') && step != "metadata";)
      schema = &at(at(*schema, "properties"), step);
    EXPECT_FALSE(schema->is_null()) << column;
  }
  EXPECT_EQ(usual, "State Ready Step Samples/s Restarts Level Age ");
  EXPECT_EQ(wide, "Loss ETA Cause ");
}

}  // namespace
}  // namespace lockstep::api::schema_test
