// Normalises each row by its own mean and variance.
#pragma once

#include <string>
#include <utility>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// (R, I) with gain (I) and shift (I) -> the same.
struct LayerNorm {
  double epsilon = 1e-5;  // added to the variance
};

// Adds `name`.gain and `name`.shift.
inline TensorId layer_norm(GraphBuilder& build, const std::string& name, TensorId input) {
  Shape in = build.shape(input);
  GraphBuilder::require(in.size() == 2, name, "the input must have rows and features");
  Connections to{.name = name, .inputs = {input}};
  to.parameters = {build.parameter(name + ".gain", {in[1]}, Fill::kOne),
                   build.parameter(name + ".shift", {in[1]}, Fill::kZero)};
  return build.add(LayerNorm{}, std::move(to), in);
}

}  // namespace lockstep::trainer::core::ops
