// Normalises each row by its own mean and variance.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// y = (x - mean) inverse gain + shift, where inverse = 1 / sqrt(variance + epsilon). x, y (rows, width); gain, shift
// (width); mean, inverse (rows) are written for the backward pass.
template <typename Element>
CudaError layer_norm_forward(CudaStream* stream, const Element* x, const float* gain, const float* shift, float* mean,
                             float* inverse, Element* y, std::int64_t rows, std::int64_t width, float epsilon);

// dx (+)= the gradient of the input; dx may not be dy.
template <typename Element>
CudaError layer_norm_backward(CudaStream* stream, const Element* x, const float* gain, const float* mean,
                              const float* inverse, const Element* dy, Element* dx, std::int64_t rows,
                              std::int64_t width, bool accumulate);

// dgain += and dshift += the gradients of the parameters (width).
template <typename Element>
CudaError layer_norm_parameters(CudaStream* stream, const Element* x, const float* mean, const float* inverse,
                                const Element* dy, float* dgain, float* dshift, std::int64_t rows, std::int64_t width,
                                void* scratch);
// Bytes of scratch of layer_norm_parameters.
size_t layer_norm_scratch(std::int64_t rows, std::int64_t width);

}  // namespace lockstep::trainer::cuda
