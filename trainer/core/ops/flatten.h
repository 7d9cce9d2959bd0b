// Each sample's numbers as one row.
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// (N, ...) -> (N, product of the others), in the order of memory: rows, columns, channels of an image.
struct Flatten {};

inline TensorId flatten(GraphBuilder& build, const std::string& name, TensorId input) {
  Shape in = build.shape(input);
  return build.add(Flatten{}, {.name = name, .inputs = {input}}, {in[0], count_of(in) / in[0]});
}

}  // namespace lockstep::trainer::core::ops
