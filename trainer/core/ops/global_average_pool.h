// The mean of each channel over all pixels of an image.
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// (N, H, W, C) -> (N, C).
struct GlobalAveragePool {};

inline TensorId global_average_pool(GraphBuilder& build, const std::string& name, TensorId input) {
  Shape in = build.shape(input);
  GraphBuilder::require(in.size() == 4, name, "the input must have samples, rows, columns and channels");
  return build.add(GlobalAveragePool{}, {.name = name, .inputs = {input}}, {in[0], in[3]});
}

}  // namespace lockstep::trainer::core::ops
