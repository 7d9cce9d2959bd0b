// Compiled once for each instruction set with LOCKSTEP_ROW_KERNELS as the name of the table. Nothing here may come from
// a header as code, so there is no <algorithm> and no <cmath>. An inline function compiled for AVX-512 could be the one
// that the linker keeps for all.
#include "trainer/backend/cpu/row_kernels.h"

namespace lockstep::trainer::backend::cpu {

namespace {

// e^x to about 2 units in the last place for x in [-87, 88], clamped outside. A polynomial, because it vectorises and
// is bitwise identical wherever the same instructions are used.
inline float exp_of(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  float shifted = x * 1.44269504088896341f + kMagic;
  float n = shifted - kMagic;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  std::int32_t bits = __builtin_bit_cast(std::int32_t, shifted) - __builtin_bit_cast(std::int32_t, kMagic);
  return p * __builtin_bit_cast(float, (bits + 127) << 23);
}

inline double log_of(double x) {
  return __builtin_log(x);
}

inline void put(float* at, float value, bool accumulate) {
  *at = accumulate ? *at + value : value;
}

void fill_rows(const float* row, size_t rows, size_t columns, float* y) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) y[r * columns + c] = row[c];
  }
}

void add_column_sums(const float* x, size_t rows, size_t columns, size_t begin, size_t end, float* sums) {
  constexpr size_t kWidth = 64;  // columns kept in registers while the rows go by
  for (size_t c0 = begin; c0 < end; c0 += kWidth) {
    size_t width = end - c0 < kWidth ? end - c0 : kWidth;
    float local[kWidth] = {};
    if (width == kWidth) {
      for (size_t r = 0; r < rows; ++r) {
        for (size_t c = 0; c < kWidth; ++c) local[c] += x[r * columns + c0 + c];
      }
    } else {
      for (size_t r = 0; r < rows; ++r) {
        for (size_t c = 0; c < width; ++c) local[c] += x[r * columns + c0 + c];
      }
    }
    for (size_t c = 0; c < width; ++c) sums[c0 + c] += local[c];
  }
}

void add(const float* a, const float* b, size_t count, float* y) {
  for (size_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

void give(const float* dy, size_t count, bool accumulate, float* dx) {
  if (accumulate) {
    for (size_t i = 0; i < count; ++i) dx[i] += dy[i];
  } else {
    for (size_t i = 0; i < count; ++i) dx[i] = dy[i];
  }
}

// The comparisons are false for a NaN, which passes: a loss that is not finite must not look finite.
void relu(const float* x, size_t count, float* y) {
  for (size_t i = 0; i < count; ++i) y[i] = x[i] <= 0 ? 0 : x[i];
}

void relu_backward(const float* y, const float* dy, size_t count, bool accumulate, float* dx) {
  for (size_t i = 0; i < count; ++i) put(dx + i, y[i] <= 0 ? 0 : dy[i], accumulate);
}

void relu6(const float* x, size_t count, float* y) {
  for (size_t i = 0; i < count; ++i) y[i] = x[i] <= 0 ? 0 : x[i] >= 6 ? 6 : x[i];
}

void relu6_backward(const float* y, const float* dy, size_t count, bool accumulate, float* dx) {
  for (size_t i = 0; i < count; ++i) put(dx + i, y[i] <= 0 ? 0 : y[i] >= 6 ? 0 : dy[i], accumulate);
}

// 0.5 (1 + tanh(u)) is the logistic function of 2 u, so that one exponential is enough.
constexpr float kRoot = 0.79788456080286535588f;  // sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

// 1 / d for d in [1, 1e30], to about 2 units in the last place. It is a guess from the exponent and three steps of
// Newton's method. A vector division is one of the slowest instructions there are.
inline float reciprocal_of(float d) {
  float y = __builtin_bit_cast(float, 0x7ef311c7 - __builtin_bit_cast(std::int32_t, d));
  y = y + y * (1.0f - d * y);
  y = y + y * (1.0f - d * y);
  return y + y * (1.0f - d * y);
}

inline float logistic_of_gelu(float x) {
  float u = -2.0f * kRoot * (x + kCubic * x * x * x);
  return reciprocal_of(1.0f + exp_of(u > 60.0f ? 60.0f : u));
}

void gelu(const float* x, size_t count, float* y) {
  for (size_t i = 0; i < count; ++i) y[i] = x[i] * logistic_of_gelu(x[i]);
}

inline float slope_of_gelu(float x) {
  float s = logistic_of_gelu(x);
  return s + x * s * (1.0f - s) * (2.0f * kRoot * (1.0f + 3.0f * kCubic * x * x));
}

void gelu_backward(const float* x, const float* dy, size_t count, bool accumulate, float* dx) {
  if (accumulate) {
    for (size_t i = 0; i < count; ++i) dx[i] += dy[i] * slope_of_gelu(x[i]);
  } else {
    for (size_t i = 0; i < count; ++i) dx[i] = dy[i] * slope_of_gelu(x[i]);
  }
}

// core::element_bits, which may not be used here (see above); a test compares the two.
inline std::uint32_t element_bits(std::uint64_t key, std::uint32_t element) {
  std::uint32_t x = element * 0x9e3779b9U ^ static_cast<std::uint32_t>(key);
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15) ^ static_cast<std::uint32_t>(key >> 32)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

void dropout(const float* x, size_t count, std::uint64_t key, std::uint32_t threshold, float factor, bool accumulate,
             float* y) {
  for (size_t i = 0; i < count; ++i) {
    float kept = element_bits(key, static_cast<std::uint32_t>(i)) >= threshold ? factor : 0.0f;
    put(y + i, x[i] * kept, accumulate);
  }
}

void layer_norm(const float* x, const float* gain, const float* shift, size_t rows, size_t columns, float epsilon,
                float* mean, float* inverse, float* y) {
  float share = 1.0f / static_cast<float>(columns);
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x + r * columns;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t c = 0; c < columns; ++c) sum += row[c];
    float m = sum * share;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (size_t c = 0; c < columns; ++c) squares += (row[c] - m) * (row[c] - m);
    float inv = 1.0f / __builtin_sqrtf(squares * share + epsilon);
    mean[r] = m;
    inverse[r] = inv;
    for (size_t c = 0; c < columns; ++c) y[r * columns + c] = (row[c] - m) * inv * gain[c] + shift[c];
  }
}

void layer_norm_backward(const float* x, const float* gain, const float* mean, const float* inverse, const float* dy,
                         size_t rows, size_t columns, bool accumulate, float* dx) {
  float share = 1.0f / static_cast<float>(columns);
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x + r * columns;
    const float* g = dy + r * columns;
    float m = mean[r], inv = inverse[r];
    float sum_g = 0, sum_gx = 0;
#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (size_t c = 0; c < columns; ++c) {
      float weighted = g[c] * gain[c];
      sum_g += weighted;
      sum_gx += weighted * (row[c] - m) * inv;
    }
    float a = sum_g * share, b = sum_gx * share;
    for (size_t c = 0; c < columns; ++c) {
      put(dx + r * columns + c, inv * (g[c] * gain[c] - a - (row[c] - m) * inv * b), accumulate);
    }
  }
}

void layer_norm_parameters(const float* x, const float* mean, const float* inverse, const float* dy, size_t rows,
                           size_t columns, size_t begin, size_t end, float* dgain, float* dshift) {
  constexpr size_t kWidth = 32;
  for (size_t c0 = begin; c0 < end; c0 += kWidth) {
    size_t width = end - c0 < kWidth ? end - c0 : kWidth;
    float gains[kWidth] = {}, shifts[kWidth] = {};
    for (size_t r = 0; r < rows; ++r) {
      const float* row = x + r * columns + c0;
      const float* g = dy + r * columns + c0;
      float m = mean[r], inv = inverse[r];
      if (width == kWidth) {
        for (size_t c = 0; c < kWidth; ++c) {
          gains[c] += g[c] * (row[c] - m) * inv;
          shifts[c] += g[c];
        }
      } else {
        for (size_t c = 0; c < width; ++c) {
          gains[c] += g[c] * (row[c] - m) * inv;
          shifts[c] += g[c];
        }
      }
    }
    for (size_t c = 0; c < width; ++c) {
      dgain[c0 + c] += gains[c];
      dshift[c0 + c] += shifts[c];
    }
  }
}

// Columns whose sums stay in registers and the first-level cache while the rows go by.
constexpr size_t kColumns = 64;

// Calls body(first column, number of columns) for tiles of [begin, end).
template <typename Body>
void for_each_tile(size_t begin, size_t end, const Body& body) {
  for (; begin < end; begin += kColumns) body(begin, end - begin < kColumns ? end - begin : kColumns);
}

void batch_norm(const float* x, const float* gain, const float* shift, size_t rows, size_t columns, size_t begin,
                size_t end, float epsilon, bool train, const double* running_mean, const double* running_variance,
                double* staged_mean, double* staged_variance, float* mean, float* inverse, float* y) {
  const auto n = static_cast<double>(rows);
  for_each_tile(begin, end, [&](size_t first, size_t count) {
    double m[kColumns] = {}, variance[kColumns] = {};
    if (train) {
      for (size_t r = 0; r < rows; ++r) {
        const float* row = x + r * columns + first;
        for (size_t c = 0; c < count; ++c) m[c] += static_cast<double>(row[c]);
      }
      for (size_t c = 0; c < count; ++c) m[c] /= n;
      for (size_t r = 0; r < rows; ++r) {
        const float* row = x + r * columns + first;
        for (size_t c = 0; c < count; ++c) {
          const double centred = static_cast<double>(row[c]) - m[c];
          variance[c] += centred * centred;
        }
      }
      for (size_t c = 0; c < count; ++c) {
        variance[c] /= n;
        staged_mean[first + c] = m[c];
        staged_variance[first + c] = variance[c] * n / (n - 1);
      }
    } else {
      for (size_t c = 0; c < count; ++c) {
        m[c] = running_mean[first + c];
        variance[c] = running_variance[first + c];
      }
    }
    for (size_t c = 0; c < count; ++c) {
      mean[first + c] = static_cast<float>(m[c]);
      inverse[first + c] = static_cast<float>(1.0 / __builtin_sqrt(variance[c] + static_cast<double>(epsilon)));
    }
  });
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = begin; c < end; ++c) {
      y[r * columns + c] = (x[r * columns + c] - mean[c]) * inverse[c] * gain[c] + shift[c];
    }
  }
}

void batch_norm_backward(const float* x, const float* gain, const float* mean, const float* inverse, const float* dy,
                         size_t rows, size_t columns, size_t begin, size_t end, bool accumulate, float* dx,
                         float* dgain, float* dshift) {
  const auto share = 1.0f / static_cast<float>(rows);
  for_each_tile(begin, end, [&](size_t first, size_t count) {
    double sum_g[kColumns] = {}, sum_gx[kColumns] = {};
    const float *m = mean + first, *inv = inverse + first;
    for (size_t r = 0; r < rows; ++r) {
      const float *values = x + r * columns + first, *gradients = dy + r * columns + first;
      for (size_t c = 0; c < count; ++c) {
        const float g = gradients[c];
        sum_g[c] += static_cast<double>(g);
        sum_gx[c] += static_cast<double>(g * (values[c] - m[c]) * inv[c]);
      }
    }
    float total[kColumns], along[kColumns];
    for (size_t c = 0; c < count; ++c) {
      total[c] = static_cast<float>(sum_g[c]);
      along[c] = static_cast<float>(sum_gx[c]);
      dgain[first + c] += along[c];
      dshift[first + c] += total[c];
    }
    if (dx == nullptr) return;
    for (size_t r = 0; r < rows; ++r) {
      const float *values = x + r * columns + first, *gradients = dy + r * columns + first;
      float* to = dx + r * columns + first;
      for (size_t c = 0; c < count; ++c) {
        const float normal = (values[c] - m[c]) * inv[c];
        const float value = gain[first + c] * inv[c] * (gradients[c] - total[c] * share - normal * along[c] * share);
        put(to + c, value, accumulate);
      }
    }
  });
}

void causal_softmax(size_t positions, size_t begin, size_t end, float scale, float* p) {
  for (size_t t = begin; t < end; ++t) {
    float* row = p + t * positions;
    float largest = row[0];
#pragma omp simd reduction(max : largest)
    for (size_t u = 0; u <= t; ++u) largest = row[u] > largest ? row[u] : largest;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t u = 0; u <= t; ++u) {
      row[u] = exp_of((row[u] - largest) * scale);
      sum += row[u];
    }
    float share = 1.0f / sum;
    for (size_t u = 0; u <= t; ++u) row[u] *= share;
    for (size_t u = t + 1; u < end; ++u) row[u] = 0;
  }
}

void causal_softmax_backward(const float* p, size_t positions, size_t begin, size_t end, float scale, float* dp) {
  for (size_t t = begin; t < end; ++t) {
    const float* row = p + t * positions;
    float* gradient = dp + t * positions;
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (size_t u = 0; u <= t; ++u) dot += row[u] * gradient[u];
    for (size_t u = 0; u <= t; ++u) gradient[u] = row[u] * (gradient[u] - dot) * scale;
    for (size_t u = t + 1; u < end; ++u) gradient[u] = 0;
  }
}

double softmax_cross_entropy(const float* x, const std::int32_t* classes, size_t rows, size_t columns, float smoothing,
                             float* p) {
  double total = 0;
  for (size_t r = 0; r < rows; ++r) {
    const float* row = x + r * columns;
    float* out = p + r * columns;
    float largest = row[0];
#pragma omp simd reduction(max : largest)
    for (size_t c = 0; c < columns; ++c) largest = row[c] > largest ? row[c] : largest;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t c = 0; c < columns; ++c) {
      out[c] = exp_of(row[c] - largest);
      sum += out[c];
    }
    float share = 1.0f / sum;
    for (size_t c = 0; c < columns; ++c) out[c] *= share;
    total += log_of(static_cast<double>(sum)) + static_cast<double>(largest - row[classes[r]]);
    if (smoothing == 0) continue;
    float above_class = 0;  // sum of what each score has over the class's
#pragma omp simd reduction(+ : above_class)
    for (size_t c = 0; c < columns; ++c) above_class += row[c] - row[classes[r]];
    total -= static_cast<double>(smoothing) * static_cast<double>(above_class) / static_cast<double>(columns);
  }
  return total;
}

void softmax_cross_entropy_backward(const float* p, const std::int32_t* classes, size_t rows, size_t columns,
                                    float smoothing, float scale, bool accumulate, float* dx) {
  const float rest = smoothing * scale / static_cast<float>(columns);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) put(dx + r * columns + c, p[r * columns + c] * scale, accumulate);
    dx[r * columns + static_cast<size_t>(classes[r])] -= scale * (1 - smoothing);
    if (smoothing == 0) continue;
    for (size_t c = 0; c < columns; ++c) dx[r * columns + c] -= rest;
  }
}

double squared_error(const float* x, const float* target, size_t count) {
  double total = 0;
  for (size_t i = 0; i < count; ++i) {
    double difference = static_cast<double>(x[i]) - static_cast<double>(target[i]);
    total += difference * difference;
  }
  return total;
}

void squared_error_backward(const float* x, const float* target, size_t count, float scale, bool accumulate,
                            float* dx) {
  for (size_t i = 0; i < count; ++i) put(dx + i, scale * (x[i] - target[i]), accumulate);
}

constexpr const char* instruction_set() {
#if defined(__AVX512F__)
  return "avx512";
#elif defined(__AVX2__)
  return "avx2";
#else
  return "sse2";
#endif
}

}  // namespace

extern const ImageKernels LOCKSTEP_IMAGE_KERNELS;
extern const FewRowsKernels LOCKSTEP_FEW_ROWS_KERNELS;
#if defined(__AVX2__) && !defined(__AVX512F__)
constexpr const TileKernels* kTiles = &tile_kernels;
#else
constexpr const TileKernels* kTiles = nullptr;
#endif
extern const RowKernels LOCKSTEP_ROW_KERNELS;
const RowKernels LOCKSTEP_ROW_KERNELS = {
    .name = instruction_set(),
    .images = LOCKSTEP_IMAGE_KERNELS,
    .few_rows = LOCKSTEP_FEW_ROWS_KERNELS,
    .tiles = kTiles,
    .fill_rows = fill_rows,
    .add_column_sums = add_column_sums,
    .add = add,
    .give = give,
    .relu = relu,
    .relu_backward = relu_backward,
    .relu6 = relu6,
    .relu6_backward = relu6_backward,
    .gelu = gelu,
    .gelu_backward = gelu_backward,
    .dropout = dropout,
    .layer_norm = layer_norm,
    .layer_norm_backward = layer_norm_backward,
    .layer_norm_parameters = layer_norm_parameters,
    .batch_norm = batch_norm,
    .batch_norm_backward = batch_norm_backward,
    .causal_softmax = causal_softmax,
    .causal_softmax_backward = causal_softmax_backward,
    .softmax_cross_entropy = softmax_cross_entropy,
    .softmax_cross_entropy_backward = softmax_cross_entropy_backward,
    .squared_error = squared_error,
    .squared_error_backward = squared_error_backward,
};

}  // namespace lockstep::trainer::backend::cpu
