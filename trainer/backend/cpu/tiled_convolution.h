// Convolutions that are products of small tiles in registers, straight from the images. Where there is AVX2 and no
// AVX-512 they take less time than the library's (docs/adr/0041-tiled-convolutions.md).
#pragma once

#include <vector>

#include "trainer/backend/cpu/kernel.h"
#include "trainer/backend/cpu/tile_kernels.h"

namespace lockstep::trainer::backend::cpu {

// Plain functions of addresses: x (N, H, W, C), y (N, H', W', C'), weight (C', K, K, C), bias (C'), and gradients of
// their shapes. `scratch`: as many elements as the function beside it says. No result depends on the number of threads.
class TiledConvolution {
 public:
  // Whether this team has tiles for this convolution.
  static bool fits(const core::ops::Conv2d& op, const Dimensions& d, const Team& team);

  TiledConvolution(const core::ops::Conv2d& op, const Dimensions& d, const Team& team);

  size_t output_scratch() const;
  // y, overwritten. `bias` may be null.
  void output(const float* x, const float* weight, const float* bias, float* scratch, float* y) const;

  size_t parameter_gradients_scratch() const;
  // Adds to dweight and, unless it is null, to dbias.
  void parameter_gradients(const float* x, const float* dy, float* scratch, float* dweight, float* dbias) const;

  // Whether the two functions below may be called: only with stride 1, where that is a convolution as well.
  bool gives_input_gradient() const { return image_.stride == 1; }
  size_t input_gradient_scratch() const;
  void input_gradient(const float* dy, const float* weight, bool accumulate, float* scratch, float* dx) const;

 private:
  // A convolution of images with as many channels as image.channels to `columns` channels.
  struct Pass {
    SlidImage image;
    size_t columns;
    bool rotated;  // the weights, to those of an input's gradient
  };
  size_t scratch_of(const Pass& pass) const;
  size_t weights_of(const Pass& pass) const { return places_ * pass.image.channels * pass.columns; }
  // `start` (columns): what the outputs begin with, or null: they are added to.
  void run(const Pass& pass, const float* x, const float* weight, const float* start, float* scratch, float* y) const;
  void pack_weights(const Pass& pass, const float* weight, float* to) const;

  const Team team_;
  const TileKernels& kernels_;
  const SlidImage image_;
  const size_t samples_, outputs_, places_;
  const Pass forward_, backward_;
  const std::vector<float> zeros_;  // for a pass without bias
};

}  // namespace lockstep::trainer::backend::cpu
