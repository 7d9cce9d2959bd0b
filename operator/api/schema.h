// The schema of TrainingJob as the CRD has it, built into the programs: manifests/crd.yaml is its one source.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep::api {

// The text of manifests/crd.yaml.
extern const char* const kCrdYaml;

// The CustomResourceDefinition as JSON. Read once; any thread.
const nlohmann::json& crd();

// Its openAPIV3Schema of v1alpha1.
const nlohmann::json& training_job_schema();

// `object` with the schema's defaults filled in, as the API server does on every write and read. Fields of a wrong
// type stay as they are.
nlohmann::json with_defaults(nlohmann::json object);

}  // namespace lockstep::api
