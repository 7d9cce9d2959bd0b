// The models that --model names. The build collects them: each .cpp file of this folder that is not listed as another
// in CMakeLists.txt holds one model, and X.cpp defines `Model X_model()`.
#pragma once

#include <string_view>
#include <vector>

#include "trainer/models/model.h"

namespace lockstep::trainer::models {

// In order of their files' names. Any thread.
const std::vector<Model>& all_models();

// null: there is no such model.
const Model* find_model(std::string_view name);

}  // namespace lockstep::trainer::models
