// As in row_kernels.cpp, nothing here may come from a header as code.
#include "trainer/backend/cpu/tile_kernels.h"

namespace lockstep::trainer::backend::cpu {

namespace {

constexpr size_t kLanes = 8, kVectors = kTileChannels / kLanes, kPixels = 6;

using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
// In memory it may begin anywhere.
using Unaligned = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

inline Vector load(const float* from) {
  return *reinterpret_cast<const Unaligned*>(from);
}

inline void store(float* to, Vector value) {
  *reinterpret_cast<Unaligned*>(to) = value;
}

inline Vector broadcast(float v) {
  return Vector{v, v, v, v, v, v, v, v};
}

void copy(const float* __restrict from, size_t count, float* __restrict to) {
  for (size_t i = 0; i < count; ++i) to[i] = from[i];
}

void zero(size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) to[i] = 0;
}

void pack_panel(const float* x, const SlidImage& image, const Slab& slab, size_t first, size_t count, float* panel) {
  const size_t before = image.padding, after = slab.width - before - image.width;
  for (size_t sample = 0; sample < slab.samples; ++sample) {
    for (size_t h = 0; h < slab.height; ++h) {
      const size_t padded = slab.first * image.stride + h;
      if (padded < image.padding || padded >= image.padding + image.height) {
        zero(slab.width * count, panel);
        panel += slab.width * count;
        continue;
      }
      const float* from = x + ((sample * image.height + padded - image.padding) * image.width) * image.channels + first;
      zero(before * count, panel);
      panel += before * count;
      for (size_t w = 0; w < image.width; ++w, from += image.channels, panel += count) copy(from, count, panel);
      zero(after * count, panel);
      panel += after * count;
    }
  }
}

void pack_gradients(const float* dy, size_t pixels, size_t columns, size_t first, float* to) {
  const size_t count = columns - first < kTileGradients ? columns - first : kTileGradients;
  dy += first;
  for (size_t p = 0; p < pixels; ++p, dy += columns, to += kTileGradients) {
    for (size_t i = 0; i < count; ++i) to[i] = dy[i];
    for (size_t i = count; i < kTileGradients; ++i) to[i] = 0;
  }
}

void pack_weights(const float* weight, size_t places, size_t count, size_t row, size_t place, float* to) {
  for (size_t p = 0; p < places; ++p, weight += place) {
    for (size_t i = 0; i < count; ++i, to += kTileChannels) {
      for (size_t o = 0; o < kTileChannels; ++o) to[o] = weight[o * row + i];
    }
  }
}

void pack_rotated_weights(const float* weight, size_t places, size_t count, size_t row, size_t place, float* to) {
  for (size_t p = places; p-- > 0;) {
    for (size_t i = 0; i < count; ++i, to += kTileChannels) copy(weight + i * row + p * place, kTileChannels, to);
  }
}

// Goes through the outputs of a slab in order.
class Walk {
 public:
  Walk(const SlidImage& image, const Slab& slab, size_t pixel)
      : width_(image.out_width),
        rows_(slab.rows),
        step_(image.stride * pixel),
        row_step_(image.stride * slab.width * pixel),
        sample_step_(slab.height * slab.width * pixel) {}
  // Where in the panel the first element is that the next output reads.
  size_t next() {
    const size_t here = sample_ + row_ + column_ * step_;
    if (++column_ < width_) return here;
    column_ = 0;
    row_ += row_step_;
    if (++rows_done_ < rows_) return here;
    rows_done_ = row_ = 0;
    sample_ += sample_step_;
    return here;
  }

 private:
  const size_t width_, rows_, step_, row_step_, sample_step_;
  size_t column_ = 0, rows_done_ = 0, row_ = 0, sample_ = 0;
};

template <size_t kCount>
[[gnu::always_inline]] inline void add_tile(const float* panel, Walk& walk, size_t kernel, size_t panel_row,
                                            size_t count, const float* __restrict weights, const float* start,
                                            size_t columns, float* __restrict y) {
  const float* at[kCount];
  Vector sums[kCount][kVectors];
  for (size_t p = 0; p < kCount; ++p) at[p] = panel + walk.next();
  for (size_t p = 0; p < kCount; ++p) {
    const float* const from = start != nullptr ? start : y + p * columns;
    for (size_t v = 0; v < kVectors; ++v) sums[p][v] = load(from + v * kLanes);
  }
  for (size_t kh = 0; kh < kernel; ++kh) {
    const size_t end = kh * panel_row + kernel * count;
    for (size_t i = kh * panel_row; i < end; ++i, weights += kTileChannels) {
      Vector w[kVectors];
      for (size_t v = 0; v < kVectors; ++v) w[v] = load(weights + v * kLanes);
      for (size_t p = 0; p < kCount; ++p) {
        const Vector value = broadcast(at[p][i]);
        for (size_t v = 0; v < kVectors; ++v) sums[p][v] += value * w[v];
      }
    }
  }
  for (size_t p = 0; p < kCount; ++p) {
    for (size_t v = 0; v < kVectors; ++v) store(y + p * columns + v * kLanes, sums[p][v]);
  }
}

void add_outputs(const float* panel, const SlidImage& image, const Slab& slab, size_t count, const float* weights,
                 const float* start, size_t columns, float* y) {
  const size_t pixels = slab.samples * slab.rows * image.out_width, row = slab.width * count;
  Walk walk(image, slab, count);
  const auto tile = [&]<size_t kCount> {
    add_tile<kCount>(panel, walk, image.kernel, row, count, weights, start, columns, y);
    y += kCount * columns;
  };
  for (size_t p = 0; p + kPixels <= pixels; p += kPixels) tile.template operator()<kPixels>();
  switch (pixels % kPixels) {
    case 1:
      return tile.template operator()<1>();
    case 2:
      return tile.template operator()<2>();
    case 3:
      return tile.template operator()<3>();
    case 4:
      return tile.template operator()<4>();
    case 5:
      return tile.template operator()<5>();
    default:
      return;
  }
}

void add_weights(const float* panel, const float* gradients, const SlidImage& image, const Slab& slab, size_t outputs,
                 size_t row, size_t place, float* dweight) {
  const size_t step = image.stride * kTileChannels;
  for (size_t kh = 0; kh < image.kernel; ++kh) {
    for (size_t kw = 0; kw < image.kernel; ++kw, dweight += place) {
      Vector sums[kTileGradients][kVectors] = {};
      const float* __restrict dy = gradients;
      for (size_t sample = 0; sample < slab.samples; ++sample) {
        for (size_t h = 0; h < slab.rows; ++h) {
          const size_t first = (sample * slab.height + h * image.stride + kh) * slab.width + kw;
          const float* __restrict x = panel + first * kTileChannels;
          for (size_t w = 0; w < image.out_width; ++w, x += step, dy += kTileGradients) {
            Vector in[kVectors];
            for (size_t v = 0; v < kVectors; ++v) in[v] = load(x + v * kLanes);
            for (size_t o = 0; o < kTileGradients; ++o) {
              const Vector gradient = broadcast(dy[o]);
              for (size_t v = 0; v < kVectors; ++v) sums[o][v] += gradient * in[v];
            }
          }
        }
      }
      for (size_t o = 0; o < kTileGradients; ++o) {
        if (o >= outputs) break;
        for (size_t v = 0; v < kVectors; ++v) {
          float* const to = dweight + o * row + v * kLanes;
          store(to, load(to) + sums[o][v]);
        }
      }
    }
  }
}

}  // namespace

const TileKernels tile_kernels = {
    .pack_panel = pack_panel,
    .pack_gradients = pack_gradients,
    .pack_weights = pack_weights,
    .pack_rotated_weights = pack_rotated_weights,
    .add_outputs = add_outputs,
    .add_weights = add_weights,
};

}  // namespace lockstep::trainer::backend::cpu
