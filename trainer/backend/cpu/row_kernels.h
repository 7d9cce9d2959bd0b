// The inner kernels of the cpu backend that are not matrix products. They are plain C-like functions over rows in
// float32, compiled once for each instruction set (row_kernels.cpp) and reached through a table. Each call works on a
// range of rows or columns and is one thread's share; shares never overlap in what they write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/cpu/few_rows_kernels.h"
#include "trainer/backend/cpu/image_kernels.h"
#include "trainer/backend/cpu/tile_kernels.h"

namespace lockstep::trainer::backend::cpu {

// Part of the numerics. It grows with each change of the kernels that changes a bit of their results. So no
// deterministic training continues from a checkpoint of other kernels.
inline constexpr int kKernelsRevision = 7;

// Matrices are row-major, (rows, columns). A name with a `d` in front is the gradient of what it names, and has its
// shape. `accumulate`: adds to what is there, else overwrites it. One call may write only its share of an output:
// columns [begin, end) where it has those.
struct RowKernels {
  const char* name;  // of the instruction set
  const ImageKernels& images;
  const FewRowsKernels& few_rows;
  const TileKernels* tiles;  // null: convolutions are the library's

  // row (columns) to each row of y (rows, columns).
  void (*fill_rows)(const float* row, size_t rows, size_t columns, float* y);
  // sums[c] += sum over rows of x(r, c), for columns [begin, end). x (rows, columns); sums (columns).
  void (*add_column_sums)(const float* x, size_t rows, size_t columns, size_t begin, size_t end, float* sums);
  // y = a + b, each (count).
  void (*add)(const float* a, const float* b, size_t count, float* y);
  // dx = dy, or dx += dy; each (count).
  void (*give)(const float* dy, size_t count, bool accumulate, float* dx);

  // Elementwise: x, y and their gradients are (count).
  void (*relu)(const float* x, size_t count, float* y);
  void (*relu_backward)(const float* y, const float* dy, size_t count, bool accumulate, float* dx);
  void (*relu6)(const float* x, size_t count, float* y);
  void (*relu6_backward)(const float* y, const float* dy, size_t count, bool accumulate, float* dx);
  void (*gelu)(const float* x, size_t count, float* y);
  void (*gelu_backward)(const float* x, const float* dy, size_t count, bool accumulate, float* dx);

  // y (+)= x factor where the element is kept, else 0; x, y (count), the elements of one sample.
  void (*dropout)(const float* x, size_t count, std::uint64_t key, std::uint32_t threshold, float factor,
                  bool accumulate, float* y);

  // y = (x - mean) inverse gain + shift, where inverse = 1 / sqrt(variance + epsilon). x, y (rows, columns); gain,
  // shift (columns); mean, inverse (rows) are written for the backward pass.
  void (*layer_norm)(const float* x, const float* gain, const float* shift, size_t rows, size_t columns, float epsilon,
                     float* mean, float* inverse, float* y);
  void (*layer_norm_backward)(const float* x, const float* gain, const float* mean, const float* inverse,
                              const float* dy, size_t rows, size_t columns, bool accumulate, float* dx);
  // Adds to dgain and dshift (columns), of columns [begin, end).
  void (*layer_norm_parameters)(const float* x, const float* mean, const float* inverse, const float* dy, size_t rows,
                                size_t columns, size_t begin, size_t end, float* dgain, float* dshift);

  // Batch norm of columns [begin, end). train: computes mean and inverse deviation and stages the statistics; else
  // uses the running ones. x, y (rows, columns); all others (columns).
  void (*batch_norm)(const float* x, const float* gain, const float* shift, size_t rows, size_t columns, size_t begin,
                     size_t end, float epsilon, bool train, const double* running_mean, const double* running_variance,
                     double* staged_mean, double* staged_variance, float* mean, float* inverse, float* y);
  void (*batch_norm_backward)(const float* x, const float* gain, const float* mean, const float* inverse,
                              const float* dy, size_t rows, size_t columns, size_t begin, size_t end, bool accumulate,
                              float* dx, float* dgain, float* dshift);

  // In place on rows [begin, end) of a (positions, positions) matrix of products: softmax of scale times the columns up
  // to the row's own; zeros beyond, before column `end`. Neither reads nor writes the columns from `end` on.
  void (*causal_softmax)(size_t positions, size_t begin, size_t end, float scale, float* p);
  // Rows [begin, end) of dp become the gradient of the products: p (dp - sum(p dp)) scale; zeros beyond the row's own
  // column, before column `end`. Neither reads nor writes the columns from `end` on.
  void (*causal_softmax_backward)(const float* p, size_t positions, size_t begin, size_t end, float scale, float* dp);

  // p = softmax of each row of x; returns sum over rows of log(sum(exp(x))) - x(class), summed in double. With
  // `smoothing`, x(class) is 1 - smoothing of it plus smoothing of the row's mean. x, p (rows, columns); classes
  // (rows).
  double (*softmax_cross_entropy)(const float* x, const std::int32_t* classes, size_t rows, size_t columns,
                                  float smoothing, float* p);
  void (*softmax_cross_entropy_backward)(const float* p, const std::int32_t* classes, size_t rows, size_t columns,
                                         float smoothing, float scale, bool accumulate, float* dx);
  // The sum of (x - target)^2; x, target (count).
  double (*squared_error)(const float* x, const float* target, size_t count);
  void (*squared_error_backward)(const float* x, const float* target, size_t count, float scale, bool accumulate,
                                 float* dx);
};

extern const RowKernels row_kernels_baseline;  // SSE2
extern const RowKernels row_kernels_v3;        // AVX2 and FMA
extern const RowKernels row_kernels_v4;        // AVX-512

// The best that this machine can run, and all that it can run (for tests).
const RowKernels& best_kernels();
bool can_run(const RowKernels& kernels);

}  // namespace lockstep::trainer::backend::cpu
