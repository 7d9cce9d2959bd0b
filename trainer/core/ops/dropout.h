// Sets a random part of the elements to zero in training, and scales the others up.
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// Any shape whose first dimension is a multiple of the batch -> the same.
struct Dropout {
  double rate = 0;  // part of the elements that becomes zero, in [0, 1)
};

// `rate` 0 adds no node and returns `input`.
inline TensorId dropout(GraphBuilder& build, const std::string& name, TensorId input, double rate) {
  GraphBuilder::require(rate >= 0 && rate < 1, name, "the rate must be in [0, 1)");
  if (rate == 0) return input;
  return build.add(Dropout{.rate = rate}, {.name = name, .inputs = {input}}, Shape(build.shape(input)));
}

}  // namespace lockstep::trainer::core::ops
