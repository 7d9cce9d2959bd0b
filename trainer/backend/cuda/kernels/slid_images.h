// The images that a window slides over: what convolution and pooling loop over.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// Images (samples, height, width, channels), and one value for each place of the window and each channel: (samples,
// out_height, out_width, channels). The window at place (h, w) has `kernel` x `kernel` pixels. It begins at row h *
// stride - padding and column w * stride - padding. It may reach beyond the image. Sizes, kernel and stride are at
// least 1. Rows and columns are of 32 bits: addresses of 64 bits would take most of the registers of a kernel.
struct SlidImages {
  std::int64_t samples = 0;
  int height = 0, width = 0;
  std::int64_t channels = 0;
  int out_height = 0, out_width = 0;
  int kernel = 1;
  int stride = 1;
  int padding = 0;

  std::int64_t elements() const { return samples * height * width * channels; }
  std::int64_t places() const { return samples * out_height * out_width; }
};

}  // namespace lockstep::trainer::cuda
