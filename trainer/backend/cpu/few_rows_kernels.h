// Products of matrices with few rows and many weights, for linear layers. Each weight, or its gradient, is read or
// written once. As in row_kernels.h a call may write only its share of an output.
#pragma once

#include <cstddef>

namespace lockstep::trainer::backend::cpu {

// Elements of a gradient that caches do not keep until the optimizer reads it.
inline constexpr size_t kPastCaches = size_t{1} << 22;

// Matrices are row-major. `accumulate`: adds to what is there, else overwrites it.
struct FewRowsKernels {
  // y = x weight^T, plus `bias` to each row unless it is null; x (rows, depth), weight (columns, depth), bias
  // (columns), y (rows, columns), columns [begin, end). Reads each weight once, which pays where there are few rows.
  void (*products)(const float* x, const float* weight, const float* bias, size_t rows, size_t depth, size_t columns,
                   size_t begin, size_t end, float* y);
  // dweight = dy^T x, or adds it, of dy (rows, columns), rows [begin, end) of dweight. From kPastCaches on an
  // overwritten gradient bypasses the caches.
  void (*weight_gradient)(const float* dy, const float* x, size_t rows, size_t depth, size_t columns, size_t begin,
                          size_t end, bool accumulate, float* dweight);
  // dx = dy weight, or adds it, of columns [begin, end) of dx.
  void (*input_gradient)(const float* dy, const float* weight, size_t rows, size_t depth, size_t columns, size_t begin,
                         size_t end, bool accumulate, float* dx);
};

}  // namespace lockstep::trainer::backend::cpu
