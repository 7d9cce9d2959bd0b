// The inner kernels of convolutions that are products of small tiles in registers (tiled_convolution.h), in float32. As
// in row_kernels.h, each call is one thread's share. Compiled for AVX2 and FMA alone.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/image_kernels.h"

namespace lockstep::trainer::backend::cpu {

// A tile of outputs is 6 pixels of kTileChannels channels; one of weights' gradients is kTileGradients channels of the
// output with kTileChannels of the input. Either fills 12 of the 16 registers of AVX2.
inline constexpr size_t kTileChannels = 16, kTileGradients = 6;
// The channels whose products are added before the next ones, so that a tile's weights and pixels stay in near caches.
inline constexpr size_t kChunk = 64;

// Some rows of each of some samples of an output (H', W', C'), and the pixels of the input that they read.
struct Slab {
  size_t samples;
  size_t first, rows;    // of the output; of each sample
  size_t height, width;  // of the input, with the padding; of each sample
};

struct TileKernels {
  // Copies channels [first, first + count) of the pixels that the slab reads to `panel` (samples, height, width,
  // count), zeros where the padding is. x (samples, H, W, C).
  void (*pack_panel)(const float* x, const SlidImage& image, const Slab& slab, size_t first, size_t count,
                     float* panel);
  // Copies columns [first, first + kTileGradients) of dy (pixels, columns) to `to` (pixels, kTileGradients), zeros
  // beyond the last column. add_weights() computes with those, too, and denormal numbers would take long.
  void (*pack_gradients)(const float* dy, size_t pixels, size_t columns, size_t first, float* to);
  // weight (columns, places, count), where the first two are `row` and `place` elements apart, to `to` (places, count,
  // kTileChannels): kTileChannels of its columns.
  void (*pack_weights)(const float* weight, size_t places, size_t count, size_t row, size_t place, float* to);
  // The same of weight (count, places, columns), the places in reverse order: what gives an input's gradient.
  void (*pack_rotated_weights)(const float* weight, size_t places, size_t count, size_t row, size_t place, float* to);
  // kTileChannels channels of all outputs of the slab: their products with the panel are added to y (pixels, columns).
  // `start`: overwrite y instead, by these values (kTileChannels) and the products. weights (places, count,
  // kTileChannels).
  void (*add_outputs)(const float* panel, const SlidImage& image, const Slab& slab, size_t count, const float* weights,
                      const float* start, size_t columns, float* y);
  // Adds the weights' gradients of a tile to dweight (outputs, places, kTileChannels), whose first two are `row` and
  // `place` elements apart. At most kTileGradients outputs. panel (of kTileChannels channels), gradients (pixels,
  // kTileGradients).
  void (*add_weights)(const float* panel, const float* gradients, const SlidImage& image, const Slab& slab,
                      size_t outputs, size_t row, size_t place, float* dweight);
};

extern const TileKernels tile_kernels;

}  // namespace lockstep::trainer::backend::cpu
