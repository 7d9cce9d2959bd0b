// Compiled once for each instruction set with LOCKSTEP_FEW_ROWS_KERNELS as the name of the table. As in row_kernels.cpp
// nothing here may come from a header as code.
#include "trainer/backend/cpu/few_rows_kernels.h"

#include <cstdint>

namespace lockstep::trainer::backend::cpu {

namespace {

#if defined(__AVX512F__)
constexpr size_t kLanes = 16, kRowsAtOnce = 8;
#elif defined(__AVX2__)
constexpr size_t kLanes = 8, kRowsAtOnce = 4;
#else
constexpr size_t kLanes = 4, kRowsAtOnce = 4;
#endif
using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
// In memory it may begin anywhere.
using Unaligned = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

inline Vector load(const float* from) {
  return *reinterpret_cast<const Unaligned*>(from);
}

inline void store(float* to, Vector value) {
  *reinterpret_cast<Unaligned*>(to) = value;
}

// Writes memory without reading it first and without a place in the caches. `to` is a multiple of a vector's bytes.
inline void store_past_caches(float* to, Vector value) {
#if defined(__AVX512F__)
  __builtin_ia32_movntps512(to, value);
#elif defined(__AVX2__)
  __builtin_ia32_movntps256(to, value);
#elif defined(__SSE__)
  __builtin_ia32_movntps(to, value);
#else
  store(to, value);
#endif
}

// Other threads see what store_past_caches() wrote before what this one writes from now on.
inline void end_stores_past_caches() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

inline float sum_of(Vector v) {
  float sum = v[0];
  for (size_t i = 1; i < kLanes; ++i) sum += v[i];
  return sum;
}

// kRows rows of x with kColumns rows of `weight`. Each sum is over lanes, then over what is left of the depth.
template <size_t kRows, size_t kColumns>
[[gnu::always_inline]] inline void multiply_rows(const float* x, const float* weight, const float* bias, size_t depth,
                                                 size_t columns, float* y) {
  Vector sums[kRows][kColumns] = {};
  size_t i = 0;
  for (; i + kLanes <= depth; i += kLanes) {
    Vector w[kColumns];
    for (size_t c = 0; c < kColumns; ++c) w[c] = load(weight + c * depth + i);
    for (size_t r = 0; r < kRows; ++r) {
      const Vector value = load(x + r * depth + i);
      for (size_t c = 0; c < kColumns; ++c) sums[r][c] += value * w[c];
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) {
      float sum = sum_of(sums[r][c]);
      for (size_t j = i; j < depth; ++j) sum += x[r * depth + j] * weight[c * depth + j];
      y[r * columns + c] = bias == nullptr ? sum : sum + bias[c];
    }
  }
}

template <size_t kColumns>
void multiply_few_rows(const float* x, const float* weight, const float* bias, size_t rows, size_t depth,
                       size_t columns, float* y) {
  size_t r = 0;
  for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce) {
    multiply_rows<kRowsAtOnce, kColumns>(x + r * depth, weight, bias, depth, columns, y + r * columns);
  }
  for (; r < rows; ++r) multiply_rows<1, kColumns>(x + r * depth, weight, bias, depth, columns, y + r * columns);
}

void products(const float* x, const float* weight, const float* bias, size_t rows, size_t depth, size_t columns,
              size_t begin, size_t end, float* y) {
  const auto at = [&](size_t c) { return bias == nullptr ? nullptr : bias + c; };
  size_t c = begin;
  for (; c + 2 <= end; c += 2) multiply_few_rows<2>(x, weight + c * depth, at(c), rows, depth, columns, y + c);
  if (c < end) multiply_few_rows<1>(x, weight + c * depth, at(c), rows, depth, columns, y + c);
}

enum class Put { kAdd, kOverwrite, kPastCaches };

// Elements [begin, end) of kColumns rows of dweight. The last ones, which fill no vector, one by one.
template <size_t kColumns, Put kPut>
[[gnu::always_inline]] inline void outer_products(const float* dy, const float* x, size_t rows, size_t depth,
                                                  size_t columns, size_t begin, size_t end, float* dweight) {
  size_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    Vector sums[kColumns] = {};
    const auto add_row = [&](size_t r) __attribute__((always_inline)) {
      const Vector value = load(x + r * depth + i);
      for (size_t c = 0; c < kColumns; ++c) sums[c] += value * dy[r * columns + c];
    };
    size_t r = 0;
    for (; r + 8 <= rows; r += 8) {
#pragma GCC unroll 8
      for (size_t k = 0; k < 8; ++k) add_row(r + k);
    }
    for (; r < rows; ++r) add_row(r);
    for (size_t c = 0; c < kColumns; ++c) {
      float* const to = dweight + c * depth + i;
      if constexpr (kPut == Put::kAdd) {
        store(to, load(to) + sums[c]);
      } else if constexpr (kPut == Put::kOverwrite) {
        store(to, sums[c]);
      } else {
        store_past_caches(to, sums[c]);
      }
    }
  }
  for (; i < end; ++i) {
    for (size_t c = 0; c < kColumns; ++c) {
      float sum = 0;
      for (size_t r = 0; r < rows; ++r) sum += x[r * depth + i] * dy[r * columns + c];
      float* const to = dweight + c * depth + i;
      *to = kPut == Put::kAdd ? *to + sum : sum;
    }
  }
}

template <Put kPut>
void put_weight_gradient(const float* dy, const float* x, size_t rows, size_t depth, size_t columns, size_t begin,
                         size_t end, float* dweight) {
  constexpr size_t kDepth = 512, kColumns = 4;  // of x at once, which stays in the first cache; of dy at once
  for (size_t i = 0; i < depth; i += kDepth) {
    const size_t until = i + kDepth < depth ? i + kDepth : depth;
    size_t c = begin;
    for (; c + kColumns <= end; c += kColumns) {
      outer_products<kColumns, kPut>(dy + c, x, rows, depth, columns, i, until, dweight + c * depth);
    }
    for (; c < end; ++c) outer_products<1, kPut>(dy + c, x, rows, depth, columns, i, until, dweight + c * depth);
  }
}

void weight_gradient(const float* dy, const float* x, size_t rows, size_t depth, size_t columns, size_t begin,
                     size_t end, bool accumulate, float* dweight) {
  const bool aligned = depth % kLanes == 0 && reinterpret_cast<std::uintptr_t>(dweight) % (kLanes * sizeof(float)) == 0;
  if (accumulate) {
    put_weight_gradient<Put::kAdd>(dy, x, rows, depth, columns, begin, end, dweight);
  } else if (aligned && depth * columns >= kPastCaches) {
    put_weight_gradient<Put::kPastCaches>(dy, x, rows, depth, columns, begin, end, dweight);
    end_stores_past_caches();
  } else {
    put_weight_gradient<Put::kOverwrite>(dy, x, rows, depth, columns, begin, end, dweight);
  }
}

// kRows rows of dx, kVectors vectors wide, plus the products of rows [first, last) of the weight.
template <size_t kRows, size_t kVectors>
[[gnu::always_inline]] inline void add_input_gradient(const float* dy, const float* weight, size_t depth,
                                                      size_t columns, size_t first, size_t last, bool accumulate,
                                                      float* dx) {
  Vector sums[kRows][kVectors] = {};
  for (size_t r = 0; accumulate && r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) sums[r][v] = load(dx + r * depth + v * kLanes);
  }
  for (size_t c = first; c < last; ++c) {
    Vector w[kVectors];
    for (size_t v = 0; v < kVectors; ++v) w[v] = load(weight + c * depth + v * kLanes);
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) sums[r][v] += w[v] * dy[r * columns + c];
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) store(dx + r * depth + v * kLanes, sums[r][v]);
  }
}

void input_gradient(const float* dy, const float* weight, size_t rows, size_t depth, size_t columns, size_t begin,
                    size_t end, bool accumulate, float* dx) {
  constexpr size_t kColumns = 32;  // as many streams as the processor reads ahead
  constexpr size_t kVectors = 2, kWide = kVectors * kLanes;
  for (size_t first = 0; first < columns; first += kColumns) {
    const size_t last = first + kColumns < columns ? first + kColumns : columns;
    const bool adds = accumulate || first > 0;
    size_t i = begin;
    for (; i + kWide <= end; i += kWide) {
      size_t r = 0;
      for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce) {
        add_input_gradient<kRowsAtOnce, kVectors>(dy + r * columns, weight + i, depth, columns, first, last, adds,
                                                  dx + r * depth + i);
      }
      for (; r < rows; ++r) {
        add_input_gradient<1, kVectors>(dy + r * columns, weight + i, depth, columns, first, last, adds,
                                        dx + r * depth + i);
      }
    }
    for (; i < end; ++i) {
      for (size_t r = 0; r < rows; ++r) {
        float sum = adds ? dx[r * depth + i] : 0;
        for (size_t c = first; c < last; ++c) sum += weight[c * depth + i] * dy[r * columns + c];
        dx[r * depth + i] = sum;
      }
    }
  }
}

}  // namespace

extern const FewRowsKernels LOCKSTEP_FEW_ROWS_KERNELS;
const FewRowsKernels LOCKSTEP_FEW_ROWS_KERNELS = {
    .products = products,
    .weight_gradient = weight_gradient,
    .input_gradient = input_gradient,
};

}  // namespace lockstep::trainer::backend::cpu
