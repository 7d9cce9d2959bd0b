// min(max(x, 0), 6).
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// Any shape -> the same. NaN stays NaN.
struct Relu6 {};

inline TensorId relu6(GraphBuilder& build, const std::string& name, TensorId input) {
  return build.add(Relu6{}, {.name = name, .inputs = {input}}, Shape(build.shape(input)));
}

}  // namespace lockstep::trainer::core::ops
