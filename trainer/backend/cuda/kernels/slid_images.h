// The images that a window slides over: what convolution and pooling loop over.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// Images (samples, height, width, channels), and one value for each place of the window and each channel: (samples,
// out_height, out_width, channels). The window at place (h, w) has `kernel` x `kernel` pixels, from row h * stride -
// padding and column w * stride - padding on. It may reach beyond the image. Sizes, kernel and stride are at least 1.
struct SlidImages {
  std::int64_t samples = 0;
  std::int64_t height = 0, width = 0;
  std::int64_t channels = 0;
  std::int64_t out_height = 0, out_width = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;

  std::int64_t elements() const { return samples * height * width * channels; }
  std::int64_t places() const { return samples * out_height * out_width; }
};

}  // namespace lockstep::trainer::cuda
