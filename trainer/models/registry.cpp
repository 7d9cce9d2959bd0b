#include "trainer/models/registry.h"

namespace lockstep::trainer::models {

// The build writes models.inc: one LOCKSTEP_MODEL(file) a line.
#define LOCKSTEP_MODEL(file) Model file##_model();
#include "models.inc"
#undef LOCKSTEP_MODEL

const std::vector<Model>& all_models() {
#define LOCKSTEP_MODEL(file) file##_model(),
  static const std::vector<Model> models = {
#include "models.inc"
  };
#undef LOCKSTEP_MODEL
  return models;
}

const Model* find_model(std::string_view name) {
  for (const Model& model : all_models()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

}  // namespace lockstep::trainer::models
