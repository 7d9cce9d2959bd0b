// A multilayer perceptron for classification: linear, batch norm, ReLU, dropout, several times.
#pragma once

#include "trainer/core/graph.h"

namespace lockstep::trainer::models {

struct MlpOptions {
  std::int64_t batch = 32;
  std::int64_t features = 32;
  std::int64_t width = 128;
  std::int64_t layers = 2;  // hidden ones
  std::int64_t classes = 10;
  double dropout = 0;
};

// Inputs: features (batch, features), class (batch). Output: scores (batch, classes). batch is at least 2.
core::Graph mlp(const MlpOptions& options);

}  // namespace lockstep::trainer::models
