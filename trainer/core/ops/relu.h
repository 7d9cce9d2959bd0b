// max(x, 0).
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// Any shape -> the same. NaN stays NaN.
struct Relu {};

inline TensorId relu(GraphBuilder& build, const std::string& name, TensorId input) {
  return build.add(Relu{}, {.name = name, .inputs = {input}}, Shape(build.shape(input)));
}

}  // namespace lockstep::trainer::core::ops
