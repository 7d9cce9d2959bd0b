// The sum of two tensors.
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// Two tensors of one shape -> the same shape.
struct Add {};

inline TensorId add(GraphBuilder& build, const std::string& name, TensorId a, TensorId b) {
  GraphBuilder::require(build.shape(a) == build.shape(b), name, "both inputs must have one shape");
  return build.add(Add{}, {.name = name, .inputs = {a, b}}, Shape(build.shape(a)));
}

}  // namespace lockstep::trainer::core::ops
