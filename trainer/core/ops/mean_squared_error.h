// The loss of a regression.
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// Values and targets (R, I) -> loss of each sample (B): the mean of the squared differences.
struct MeanSquaredError {
  static constexpr bool kIsLoss = true;
};

// `targets` is an input of the graph.
inline TensorId mean_squared_error(GraphBuilder& build, const std::string& name, TensorId values, TensorId targets) {
  GraphBuilder::require(build.shape(values) == build.shape(targets), name, "values and targets must have one shape");
  GraphBuilder::require(!build.tensor(targets).has_gradient, name, "the targets must be an input");
  return build.add(MeanSquaredError{}, {.name = name, .inputs = {values, targets}}, {build.batch()});
}

}  // namespace lockstep::trainer::core::ops
