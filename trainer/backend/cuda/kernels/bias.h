// The bias of a convolution, and the gradient of that and of a linear layer's. A linear layer's product of matrices
// adds the bias itself.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// Adds the bias (columns) to each row of y (rows, columns).
template <typename Element>
CudaError add_bias(CudaStream* stream, const float* bias, Element* y, std::int64_t rows, std::int64_t columns);

// sums += the sum of x's rows; x (rows, columns), sums (columns).
template <typename Element>
CudaError add_column_sums(CudaStream* stream, const Element* x, float* sums, std::int64_t rows, std::int64_t columns,
                          void* scratch);
// Bytes of scratch of add_column_sums.
size_t column_sums_scratch(std::int64_t rows, std::int64_t columns);

}  // namespace lockstep::trainer::cuda
