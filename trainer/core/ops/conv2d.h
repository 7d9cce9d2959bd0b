// A convolution of images: N samples of H x W pixels with C channels each, in the order N, H, W, C.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "trainer/core/graph_builder.h"

namespace lockstep::trainer::core::ops {

// (N, H, W, C) with weight (O, K, K, C / groups) and bias (O) or none -> (N, H', W', O). H' = (H + 2 padding - K) /
// stride + 1, rounded down. Output channel o reads the channels of group o / (O / groups).
struct Conv2d {
  std::int64_t kernel = 1;  // K
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros on each side
  std::int64_t groups = 1;   // C: each channel by itself (depthwise)
  bool bias = false;

  double flops(const Shape& in, const Shape& out, std::int64_t) const {
    return 2.0 * static_cast<double>(count_of(out) * kernel * kernel * (in.back() / groups));
  }
};

// The size of an image after a window of `kernel` pixels slid over it.
inline std::int64_t windows_over(std::int64_t pixels, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return (pixels + 2 * padding - kernel) / stride + 1;
}

// Adds the layer `name` with `name`.weight, and `name`.bias if it has one; weights have `deviation` (0: sqrt(2 / (K K
// O)), which keeps the variance of gradients through a ReLU).
inline TensorId conv2d(GraphBuilder& build, const std::string& name, TensorId input, std::int64_t outputs, Conv2d op,
                       double deviation = 0) {
  Shape in = build.shape(input);
  GraphBuilder::require(in.size() == 4, name, "the input must have samples, rows, columns and channels");
  GraphBuilder::require(op.kernel >= 1 && op.stride >= 1 && op.padding >= 0 && op.padding < op.kernel, name,
                        "the padding must be smaller than the kernel, and the stride at least 1");
  GraphBuilder::require(in[1] + 2 * op.padding >= op.kernel && in[2] + 2 * op.padding >= op.kernel, name,
                        "the image is smaller than the kernel");
  GraphBuilder::require(op.groups >= 1 && in[3] % op.groups == 0 && outputs % op.groups == 0, name,
                        "channels before and after must be multiples of the groups");
  if (deviation == 0) deviation = std::sqrt(2.0 / static_cast<double>(op.kernel * op.kernel * outputs));
  Connections to{.name = name, .inputs = {input}};
  to.parameters.push_back(build.parameter(name + ".weight", {outputs, op.kernel, op.kernel, in[3] / op.groups},
                                          Fill::kNormal, deviation, true));
  if (op.bias) to.parameters.push_back(build.parameter(name + ".bias", {outputs}, Fill::kZero));
  return build.add(op, std::move(to),
                   {in[0], windows_over(in[1], op.kernel, op.stride, op.padding),
                    windows_over(in[2], op.kernel, op.stride, op.padding), outputs});
}

}  // namespace lockstep::trainer::core::ops
