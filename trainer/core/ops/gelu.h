// The Gaussian error linear unit, in its tanh form.
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// Any shape -> the same: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
struct Gelu {};

inline TensorId gelu(GraphBuilder& build, const std::string& name, TensorId input) {
  return build.add(Gelu{}, {.name = name, .inputs = {input}}, Shape(build.shape(input)));
}

}  // namespace lockstep::trainer::core::ops
