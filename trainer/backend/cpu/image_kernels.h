// The inner kernels over images (rows of channels, one row for each pixel), in float32: norms with what follows them,
// and max pooling. As in row_kernels.h, they are compiled once for each instruction set, and each call is one thread's
// share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/activation.h"

namespace lockstep::trainer::backend::cpu {

// What a norm does to each channel: (x - mean) scale + shift.
struct NormChannels {
  const float* mean;   // (C)
  const float* scale;  // (C)
  const float* shift;  // (C)
};

// The gradient of a channel's norm: scale (g - centre - (x - mean) slope), where g is what the activation lets through.
struct NormSlopes {
  const float* scale;   // (C)
  const float* centre;  // (C)
  const float* slope;   // (C)
};

// One sample of images (H, W, C), and the window that slides over it and gives an image of H' x W' pixels.
struct SlidImage {
  size_t height, width, channels;
  size_t out_height, out_width;
  size_t kernel, stride, padding;
};

// The largest kernel of a convolution of each channel by itself.
inline constexpr size_t kLargestDepthwise = 7;

// For norms an image is (rows, columns): a row for each pixel, a column for each channel.
struct ImageKernels {
  // Adds to sums[c] the sum over the rows of x - origin, and to sums[columns + c] that of its square. An origin near
  // the mean keeps the squares small. x (rows, columns); origin (columns); sums (2, columns).
  void (*norm_sums)(const float* x, size_t rows, size_t columns, const float* origin, double* sums);
  // y = activation(norm(x) + other); `other` may be null. Each (rows, columns).
  void (*norm)(const float* x, const float* other, size_t rows, size_t columns, const NormChannels& channels,
               Activation activation, float* y);
  // Let g be the part of dy that the activation lets through; it looks at `y` or, if that is null, computes the norm
  // again. Adds to sums[c] the sum over the rows of g, to sums[columns + c] that of g (x - mean). Writes g to `other`,
  // or adds it, unless that is null. x, y, dy, other (rows, columns); sums (2, columns).
  void (*norm_backward_sums)(const float* x, const float* y, const float* dy, size_t rows, size_t columns,
                             const NormChannels& channels, Activation activation, bool accumulate, float* other,
                             double* sums);
  // dx (+)= the gradient of x; x, y, dy, dx (rows, columns).
  void (*norm_backward)(const float* x, const float* y, const float* dy, size_t rows, size_t columns,
                        const NormChannels& channels, const NormSlopes& slopes, Activation activation, bool accumulate,
                        float* dx);

  // Rows [begin, end) of y (H', W', C), of x (H, W, C) and weight (K, K, C).
  void (*depthwise)(const float* x, const float* weight, const SlidImage& image, size_t begin, size_t end, float* y);
  // Rows [begin, end) of dx (H, W, C), of dy (H', W', C) and weight (K, K, C).
  void (*depthwise_input)(const float* dy, const float* weight, const SlidImage& image, size_t begin, size_t end,
                          bool accumulate, float* dx);
  // Adds the weights' gradient from rows [begin, end) of dy to sums (K, K, C). `row`: room for as many. x (H, W, C).
  void (*depthwise_weights)(const float* x, const float* dy, const SlidImage& image, size_t begin, size_t end,
                            float* row, double* sums);

  // The largest value of each window; a NaN is larger than all. `relu`: a ReLU comes before or, which is the same,
  // after. x (H, W, C); y (H', W', C).
  void (*max_pool)(const float* x, const SlidImage& image, bool relu, float* y);
  // Adds each gradient to that of the first largest value of its window. x, dx (H, W, C); dy (H', W', C).
  void (*max_pool_backward)(const float* x, const float* dy, const SlidImage& image, bool relu, float* dx);
};

}  // namespace lockstep::trainer::backend::cpu
