// Compiled once for each instruction set with LOCKSTEP_IMAGE_KERNELS as the name of the table. As in row_kernels.cpp,
// nothing here may come from a header as code.
#include "trainer/backend/cpu/image_kernels.h"

namespace lockstep::trainer::backend::cpu {

namespace {

// Sums of this many rows are of float32, those of all rows of float64; the sums of a tile stay in the first-level cache
// while its rows go by, four at a time.
constexpr size_t kRows = 64;
constexpr size_t kTile = 512;

// Calls body(first row, number of rows, first column, number of columns) for tiles of all rows and columns.
template <typename Body>
void for_each_block(size_t rows, size_t columns, const Body& body) {
  for (size_t r = 0; r < rows; r += kRows) {
    const size_t height = rows - r < kRows ? rows - r : kRows;
    for (size_t c = 0; c < columns; c += kTile) body(r, height, c, columns - c < kTile ? columns - c : kTile);
  }
}

void norm_sums(const float* x, size_t rows, size_t columns, const float* origin, double* sums) {
  for_each_block(rows, columns, [&](size_t first, size_t height, size_t begin, size_t count) {
    float sum[kTile] = {}, squares[kTile] = {};
    const float* const o = origin + begin;
    size_t r = 0;
    for (; r + 4 <= height; r += 4) {
      const float* const a = x + (first + r) * columns + begin;
      const float *const b = a + columns, *const c = b + columns, *const d = c + columns;
      for (size_t i = 0; i < count; ++i) {
        const float p = a[i] - o[i], q = b[i] - o[i], s = c[i] - o[i], t = d[i] - o[i];
        sum[i] += (p + q) + (s + t);
        squares[i] += (p * p + q * q) + (s * s + t * t);
      }
    }
    for (; r < height; ++r) {
      const float* const a = x + (first + r) * columns + begin;
      for (size_t i = 0; i < count; ++i) {
        const float p = a[i] - o[i];
        sum[i] += p;
        squares[i] += p * p;
      }
    }
    for (size_t i = 0; i < count; ++i) sums[begin + i] += static_cast<double>(sum[i]);
    for (size_t i = 0; i < count; ++i) sums[columns + begin + i] += static_cast<double>(squares[i]);
  });
}

// The comparisons are false for a NaN, which passes: a loss that is not finite must not look finite.
template <Activation kActivation>
inline float activated(float value) {
  if constexpr (kActivation == Activation::kNone) return value;
  if constexpr (kActivation == Activation::kRelu) return value <= 0 ? 0 : value;
  return value <= 0 ? 0 : value >= 6 ? 6 : value;
}

// The part of `gradient` that passes; `value` is from before the activation or after it, which are alike.
template <Activation kActivation>
inline float passed(float value, float gradient) {
  if constexpr (kActivation == Activation::kNone) return gradient;
  if constexpr (kActivation == Activation::kRelu) return value <= 0 ? 0 : gradient;
  return value <= 0 ? 0 : value >= 6 ? 0 : gradient;
}

// Forward and backward compute it by the same instructions, so that they agree on what the activation lets through.
inline float normal_of(float x, float mean, float scale, float shift) {
  return (x - mean) * scale + shift;
}

template <Activation kActivation, bool kAdds>
void norm_rows(const float* __restrict x, const float* __restrict other, size_t rows, size_t columns,
               const NormChannels& channels, float* __restrict y) {
  const float* __restrict mean = channels.mean;
  const float* __restrict scale = channels.scale, * __restrict shift = channels.shift;
  for (size_t r = 0; r < rows; ++r, x += columns, y += columns) {
    for (size_t c = 0; c < columns; ++c) {
      const float value = normal_of(x[c], mean[c], scale[c], shift[c]);
      if constexpr (kAdds) y[c] = activated<kActivation>(value + other[r * columns + c]);
      if constexpr (!kAdds) y[c] = activated<kActivation>(value);
    }
  }
}

// Calls body.template operator()<activation>().
template <typename Body>
void with_activation(Activation activation, const Body& body) {
  if (activation == Activation::kNone) return body.template operator()<Activation::kNone>();
  if (activation == Activation::kRelu) return body.template operator()<Activation::kRelu>();
  return body.template operator()<Activation::kRelu6>();
}

// Calls body.template operator()<flag>().
template <typename Body>
void with_flag(bool flag, const Body& body) {
  if (flag) return body.template operator()<true>();
  return body.template operator()<false>();
}

void norm(const float* x, const float* other, size_t rows, size_t columns, const NormChannels& channels,
          Activation activation, float* y) {
  with_activation(activation, [&]<Activation kActivation> {
    with_flag(other != nullptr,
              [&]<bool kAdds> { norm_rows<kActivation, kAdds>(x, other, rows, columns, channels, y); });
  });
}

enum class Gives { kNothing, kWrites, kAdds };

template <Activation kActivation, bool kFromY, Gives kGives>
void sum_rows(const float* __restrict x, const float* __restrict y, const float* __restrict dy, size_t rows,
              size_t columns, const NormChannels& channels, float* __restrict other, double* __restrict sums) {
  for_each_block(rows, columns, [&](size_t first, size_t height, size_t begin, size_t count) {
    float sum[kTile] = {}, along[kTile] = {};
    const float *__restrict mean = channels.mean + begin, *__restrict scale = channels.scale + begin,
                *__restrict shift = channels.shift + begin;
    const auto gradient = [&](size_t at, size_t i) {
      const float value = kFromY ? y[at + i] : normal_of(x[at + i], mean[i], scale[i], shift[i]);
      const float g = passed<kActivation>(value, dy[at + i]);
      if constexpr (kGives == Gives::kWrites) other[at + i] = g;
      if constexpr (kGives == Gives::kAdds) other[at + i] += g;
      return g;
    };
    size_t r = 0;
    for (; r + 2 <= height; r += 2) {
      const size_t a = (first + r) * columns + begin, b = a + columns;
      for (size_t i = 0; i < count; ++i) {
        const float g = gradient(a, i), h = gradient(b, i);
        sum[i] += g + h;
        along[i] += g * (x[a + i] - mean[i]) + h * (x[b + i] - mean[i]);
      }
    }
    for (; r < height; ++r) {
      const size_t a = (first + r) * columns + begin;
      for (size_t i = 0; i < count; ++i) {
        const float g = gradient(a, i);
        sum[i] += g;
        along[i] += g * (x[a + i] - mean[i]);
      }
    }
    for (size_t i = 0; i < count; ++i) sums[begin + i] += static_cast<double>(sum[i]);
    for (size_t i = 0; i < count; ++i) sums[columns + begin + i] += static_cast<double>(along[i]);
  });
}

void norm_backward_sums(const float* x, const float* y, const float* dy, size_t rows, size_t columns,
                        const NormChannels& channels, Activation activation, bool accumulate, float* other,
                        double* sums) {
  with_activation(activation, [&]<Activation kActivation> {
    with_flag(y != nullptr, [&]<bool kFromY> {
      if (other == nullptr) {
        sum_rows<kActivation, kFromY, Gives::kNothing>(x, y, dy, rows, columns, channels, other, sums);
      } else if (accumulate) {
        sum_rows<kActivation, kFromY, Gives::kAdds>(x, y, dy, rows, columns, channels, other, sums);
      } else {
        sum_rows<kActivation, kFromY, Gives::kWrites>(x, y, dy, rows, columns, channels, other, sums);
      }
    });
  });
}

template <Activation kActivation, bool kFromY, bool kAccumulates>
void give_rows(const float* __restrict x, const float* __restrict y, const float* __restrict dy, size_t rows,
               size_t columns, const NormChannels& channels, const NormSlopes& slopes, float* __restrict dx) {
  const float *__restrict mean = channels.mean, *__restrict scale = channels.scale, *__restrict shift = channels.shift,
              *__restrict factor = slopes.scale, *__restrict centre = slopes.centre, *__restrict slope = slopes.slope;
  for (size_t r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
    for (size_t c = 0; c < columns; ++c) {
      const float value = kFromY ? y[r * columns + c] : normal_of(x[c], mean[c], scale[c], shift[c]);
      const float g = passed<kActivation>(value, dy[c]);
      const float given = factor[c] * (g - centre[c] - (x[c] - mean[c]) * slope[c]);
      if constexpr (kAccumulates) dx[c] += given;
      if constexpr (!kAccumulates) dx[c] = given;
    }
  }
}

void norm_backward(const float* x, const float* y, const float* dy, size_t rows, size_t columns,
                   const NormChannels& channels, const NormSlopes& slopes, Activation activation, bool accumulate,
                   float* dx) {
  with_activation(activation, [&]<Activation kActivation> {
    with_flag(y != nullptr, [&]<bool kFromY> {
      with_flag(accumulate, [&]<bool kAccumulates> {
        give_rows<kActivation, kFromY, kAccumulates>(x, y, dy, rows, columns, channels, slopes, dx);
      });
    });
  });
}

inline void add_products(const float* __restrict a, const float* __restrict b, size_t count, float* __restrict sum) {
  for (size_t c = 0; c < count; ++c) sum[c] += a[c] * b[c];
}

// The places of the window that lie in the image when it begins at `first` - padding: [begin, end).
struct Places {
  size_t begin, end;
};
inline Places places_of(size_t first, size_t kernel, size_t padding, size_t size) {
  const size_t begin = first < padding ? padding - first : 0;
  const size_t last = size + padding - first;
  return {begin, last < kernel ? last : kernel};
}

// Two rows of channels whose products are part of a sum.
struct Pair {
  const float *a, *b;
};
constexpr size_t kMostPairs = kLargestDepthwise * kLargestDepthwise;

// A vector that fills one register.
#if defined(__AVX512F__)
constexpr size_t kWide = 16;
#elif defined(__AVX2__)
constexpr size_t kWide = 8;
#else
constexpr size_t kWide = 4;
#endif
using Wide = float __attribute__((vector_size(kWide * sizeof(float))));
using Unaligned = float __attribute__((vector_size(kWide * sizeof(float)), aligned(sizeof(float)), may_alias));

inline Wide load(const float* from) {
  return *reinterpret_cast<const Unaligned*>(from);
}

inline void store(float* to, Wide value) {
  *reinterpret_cast<Unaligned*>(to) = value;
}

// Channels [c, c + kVectors kWide) of `to` = sum of the pairs' products, or adds it; sums stay in registers.
template <size_t kVectors, bool kAccumulates>
[[gnu::always_inline]] inline void sum_vectors(const Pair* pairs, size_t count, size_t c, float* to) {
  Wide sums[kVectors] = {};
  for (size_t i = 0; i < count; ++i) {
    const float *const a = pairs[i].a + c, *const b = pairs[i].b + c;
    for (size_t v = 0; v < kVectors; ++v) sums[v] += load(a + v * kWide) * load(b + v * kWide);
  }
  for (size_t v = 0; v < kVectors; ++v) {
    float* const at = to + c + v * kWide;
    store(at, kAccumulates ? load(at) + sums[v] : sums[v]);
  }
}

// to = sum of the pairs' products, or adds it.
template <bool kAccumulates>
inline void sum_products(const Pair* pairs, size_t count, size_t channels, float* to) {
  constexpr size_t kVectors = 4;
  size_t c = 0;
  for (; c + kVectors * kWide <= channels; c += kVectors * kWide)
    sum_vectors<kVectors, kAccumulates>(pairs, count, c, to);
  for (; c + kWide <= channels; c += kWide) sum_vectors<1, kAccumulates>(pairs, count, c, to);
  for (; c < channels; ++c) {
    float sum = 0;
    for (size_t i = 0; i < count; ++i) sum += pairs[i].a[c] * pairs[i].b[c];
    to[c] = kAccumulates ? to[c] + sum : sum;
  }
}

void depthwise(const float* x, const float* weight, const SlidImage& image, size_t begin, size_t end, float* y) {
  const size_t channels = image.channels;
  for (size_t h = begin; h < end; ++h) {
    const Places rows = places_of(h * image.stride, image.kernel, image.padding, image.height);
    for (size_t w = 0; w < image.out_width; ++w) {
      const Places columns = places_of(w * image.stride, image.kernel, image.padding, image.width);
      Pair pairs[kMostPairs];
      size_t count = 0;
      for (size_t kh = rows.begin; kh < rows.end; ++kh) {
        const size_t pixel = (h * image.stride + kh - image.padding) * image.width + w * image.stride - image.padding;
        for (size_t kw = columns.begin; kw < columns.end; ++kw) {
          pairs[count++] = {x + (pixel + kw) * channels, weight + (kh * image.kernel + kw) * channels};
        }
      }
      sum_products<false>(pairs, count, channels, y + (h * image.out_width + w) * channels);
    }
  }
}

// `kStride` 0: any, which is slower, because it divides.
template <size_t kStride, bool kAccumulates>
void input_rows(const float* dy, const float* weight, const SlidImage& image, size_t begin, size_t end, float* dx) {
  const size_t channels = image.channels, stride = kStride == 0 ? image.stride : kStride;
  for (size_t h = begin; h < end; ++h) {
    for (size_t w = 0; w < image.width; ++w) {
      Pair pairs[kMostPairs];
      size_t count = 0;
      for (size_t kh = 0; kh < image.kernel; ++kh) {
        const size_t row = h + image.padding - kh;  // times the stride; before 0: huge
        if (row % stride != 0 || row / stride >= image.out_height) continue;
        for (size_t kw = 0; kw < image.kernel; ++kw) {
          const size_t column = w + image.padding - kw;
          if (column % stride != 0 || column / stride >= image.out_width) continue;
          const size_t pixel = row / stride * image.out_width + column / stride;
          pairs[count++] = {dy + pixel * channels, weight + (kh * image.kernel + kw) * channels};
        }
      }
      sum_products<kAccumulates>(pairs, count, channels, dx + (h * image.width + w) * channels);
    }
  }
}

void depthwise_input(const float* dy, const float* weight, const SlidImage& image, size_t begin, size_t end,
                     bool accumulate, float* dx) {
  with_flag(accumulate, [&]<bool kAccumulates> {
    if (image.stride == 1) return input_rows<1, kAccumulates>(dy, weight, image, begin, end, dx);
    if (image.stride == 2) return input_rows<2, kAccumulates>(dy, weight, image, begin, end, dx);
    return input_rows<0, kAccumulates>(dy, weight, image, begin, end, dx);
  });
}

// Adds to sum (kKernel, channels) the products of `count` gradients (count, channels) with the pixels that each reads,
// kKernel beside each other; `step`: elements from the first pixel of one to that of the next. Sums stay in registers.
template <size_t kKernel>
void add_row(const float* x, const float* dy, size_t count, size_t step, size_t channels, float* sum) {
  constexpr size_t kVectors = 2;
  size_t c = 0;
  for (; c + kVectors * kWide <= channels; c += kVectors * kWide) {
    Wide sums[kKernel][kVectors] = {};
    const float *from = x + c, *gradient = dy + c;
    for (size_t w = 0; w < count; ++w, from += step, gradient += channels) {
      Wide g[kVectors];
      for (size_t v = 0; v < kVectors; ++v) g[v] = load(gradient + v * kWide);
      for (size_t k = 0; k < kKernel; ++k) {
        for (size_t v = 0; v < kVectors; ++v) sums[k][v] += load(from + k * channels + v * kWide) * g[v];
      }
    }
    for (size_t k = 0; k < kKernel; ++k) {
      for (size_t v = 0; v < kVectors; ++v) {
        float* const to = sum + k * channels + c + v * kWide;
        store(to, load(to) + sums[k][v]);
      }
    }
  }
  for (size_t w = 0; w < count; ++w) {
    for (size_t k = 0; k < kKernel; ++k) {
      add_products(x + w * step + k * channels + c, dy + w * channels + c, channels - c, sum + k * channels + c);
    }
  }
}

// Outputs whose products are added in float32.
constexpr size_t kDepthwiseOutputs = 64;

void depthwise_weights(const float* x, const float* dy, const SlidImage& image, size_t begin, size_t end, float* row,
                       double* sums) {
  const size_t channels = image.channels, kernel = image.kernel, window = kernel * kernel * channels;
  // Of these columns the whole window lies in the image: [first, last).
  const size_t past = image.width + image.padding;
  const size_t first = (image.padding + image.stride - 1) / image.stride;
  const size_t last = past < kernel ? 0 : (past - kernel) / image.stride + 1;
  const bool whole_rows = kernel == 3 && first < last;
  size_t added = 0;
  for (size_t h = begin; h < end; ++h) {
    if (added == 0) {
      for (size_t i = 0; i < window; ++i) row[i] = 0;
    }
    const Places rows = places_of(h * image.stride, kernel, image.padding, image.height);
    for (size_t kh = rows.begin; kh < rows.end; ++kh) {
      const float* const from = x + (h * image.stride + kh - image.padding) * image.width * channels;
      const float* const gradients = dy + h * image.out_width * channels;
      float* const sum = row + kh * kernel * channels;
      for (size_t w = 0; w < image.out_width; ++w) {
        if (whole_rows && w == first) {
          const size_t stop = last < image.out_width ? last : image.out_width;
          add_row<3>(from + (w * image.stride - image.padding) * channels, gradients + w * channels, stop - w,
                     image.stride * channels, channels, sum);
          w = stop;
          if (w == image.out_width) break;
        }
        const Places columns = places_of(w * image.stride, kernel, image.padding, image.width);
        for (size_t kw = columns.begin; kw < columns.end; ++kw) {
          add_products(from + (w * image.stride + kw - image.padding) * channels, gradients + w * channels, channels,
                       sum + kw * channels);
        }
      }
    }
    added += image.out_width;
    if (added < kDepthwiseOutputs && h + 1 < end) continue;
    for (size_t i = 0; i < window; ++i) sums[i] += static_cast<double>(row[i]);
    added = 0;
  }
}

// Channels whose largest values stay in registers while the window goes by.
constexpr size_t kPooled = 64;

// Calls body(number of the pixel in the window, its index) for the pixels of a window that are in the image.
template <typename Body>
void for_each_pixel(const SlidImage& image, size_t out_row, size_t out_column, const Body& body) {
  for (size_t kh = 0; kh < image.kernel; ++kh) {
    for (size_t kw = 0; kw < image.kernel; ++kw) {
      const size_t h = out_row * image.stride + kh - image.padding;  // before 0: huge
      const size_t w = out_column * image.stride + kw - image.padding;
      if (h < image.height && w < image.width) body(kh * image.kernel + kw, h * image.width + w);
    }
  }
}

void max_pool(const float* x, const SlidImage& image, bool relu, float* y) {
  for (size_t at = 0; at < image.out_height * image.out_width; ++at) {
    for (size_t begin = 0; begin < image.channels; begin += kPooled) {
      const size_t count = image.channels - begin < kPooled ? image.channels - begin : kPooled;
      float largest[kPooled];
      for (size_t c = 0; c < count; ++c) largest[c] = -__builtin_inff();
      for_each_pixel(image, at / image.out_width, at % image.out_width, [&](size_t, size_t pixel) {
        const float* from = x + pixel * image.channels + begin;
        for (size_t c = 0; c < count; ++c) {
          largest[c] = (from[c] > largest[c]) | (from[c] != from[c]) ? from[c] : largest[c];
        }
      });
      float* to = y + at * image.channels + begin;
      for (size_t c = 0; c < count; ++c) to[c] = relu && largest[c] <= 0 ? 0 : largest[c];
    }
  }
}

void max_pool_backward(const float* x, const float* dy, const SlidImage& image, bool relu, float* dx) {
  for (size_t at = 0; at < image.out_height * image.out_width; ++at) {
    for (size_t begin = 0; begin < image.channels; begin += kPooled) {
      const size_t count = image.channels - begin < kPooled ? image.channels - begin : kPooled;
      const float* from_above = dy + at * image.channels + begin;
      float largest[kPooled];
      std::int32_t chosen[kPooled];
      for (size_t c = 0; c < count; ++c) chosen[c] = -1;
      for (size_t c = 0; c < count; ++c) largest[c] = 0;
      for_each_pixel(image, at / image.out_width, at % image.out_width, [&](size_t number, size_t pixel) {
        const float* from = x + pixel * image.channels + begin;
        for (size_t c = 0; c < count; ++c) {
          const bool larger = (from[c] > largest[c]) | ((from[c] != from[c]) & (largest[c] == largest[c]));
          const bool taken = larger | (chosen[c] < 0);
          largest[c] = taken ? from[c] : largest[c];
          chosen[c] = taken ? static_cast<std::int32_t>(number) : chosen[c];
        }
      });
      if (relu) {
        for (size_t c = 0; c < count; ++c) chosen[c] = largest[c] <= 0 ? -1 : chosen[c];
      }
      for_each_pixel(image, at / image.out_width, at % image.out_width, [&](size_t number, size_t pixel) {
        float* to = dx + pixel * image.channels + begin;
        for (size_t c = 0; c < count; ++c) {
          to[c] += chosen[c] == static_cast<std::int32_t>(number) ? from_above[c] : 0.0f;
        }
      });
    }
  }
}

}  // namespace

extern const ImageKernels LOCKSTEP_IMAGE_KERNELS;
const ImageKernels LOCKSTEP_IMAGE_KERNELS = {
    .norm_sums = norm_sums,
    .norm = norm,
    .norm_backward_sums = norm_backward_sums,
    .norm_backward = norm_backward,
    .depthwise = depthwise,
    .depthwise_input = depthwise_input,
    .depthwise_weights = depthwise_weights,
    .max_pool = max_pool,
    .max_pool_backward = max_pool_backward,
};

}  // namespace lockstep::trainer::backend::cpu
