// The largest value of each channel in a window that slides over an image.
#pragma once

#include <string>

#include "trainer/core/graph_builder.h"
#include "trainer/core/ops/conv2d.h"

namespace lockstep::trainer::core::ops {

// (N, H, W, C) -> (N, H', W', C); sizes as for Conv2d. A NaN in a window is its largest value. Padding never is. Of
// equal values, the first in the order of rows and columns gets the gradient; so does the first NaN.
struct MaxPool2d {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
};

inline TensorId max_pool2d(GraphBuilder& build, const std::string& name, TensorId input, MaxPool2d op = {}) {
  Shape in = build.shape(input);
  GraphBuilder::require(in.size() == 4, name, "the input must have samples, rows, columns and channels");
  GraphBuilder::require(op.kernel >= 1 && op.stride >= 1 && op.padding >= 0 && 2 * op.padding <= op.kernel, name,
                        "the padding must be at most half of the kernel, and the stride at least 1");
  GraphBuilder::require(in[1] + 2 * op.padding >= op.kernel && in[2] + 2 * op.padding >= op.kernel, name,
                        "the image is smaller than the kernel");
  return build.add(op, {.name = name, .inputs = {input}},
                   {in[0], windows_over(in[1], op.kernel, op.stride, op.padding),
                    windows_over(in[2], op.kernel, op.stride, op.padding), in[3]});
}

}  // namespace lockstep::trainer::core::ops
