// A fully connected layer. R rows (samples, or samples times positions), I and O features.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// (R, I) with weight (O, I) and bias (O) or none -> (R, O).
struct Linear {
  static double flops(const Shape& in, const Shape& out, std::int64_t) {
    return 2.0 * static_cast<double>(count_of(out) * in.back());
  }
};

// Adds the layer `name` with `name`.weight, and `name`.bias unless `bias` is false; weights have `deviation`
// (0: 1 / sqrt(features of the input)). `weight`: the name of the weight if it is shared with another layer.
inline TensorId linear(GraphBuilder& build, const std::string& name, TensorId input, std::int64_t outputs,
                       bool bias = true, double deviation = 0, const std::string& weight = "") {
  Shape in = build.shape(input);
  GraphBuilder::require(in.size() == 2, name, "the input must have rows and features");
  if (deviation == 0) deviation = 1.0 / std::sqrt(static_cast<double>(in[1]));
  Connections to{.name = name, .inputs = {input}};
  to.parameters.push_back(
      build.parameter(weight.empty() ? name + ".weight" : weight, {outputs, in[1]}, Fill::kNormal, deviation, true));
  if (bias) to.parameters.push_back(build.parameter(name + ".bias", {outputs}, Fill::kZero));
  return build.add(Linear{}, std::move(to), {in[0], outputs});
}

}  // namespace lockstep::trainer::core::ops
