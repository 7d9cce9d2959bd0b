// Normalises each column over all rows in training, by running statistics in evaluation.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// y = (x - mean) inverse gain + shift, where inverse = 1 / sqrt(variance + epsilon), with the biased variance. x, y
// (rows, width), at least two rows; gain, shift (width). Written: staged_mean and staged_variance (width), which is the
// unbiased one; mean and inverse (width), for the backward pass.
template <typename Element>
CudaError batch_norm_train(CudaStream* stream, const Element* x, const float* gain, const float* shift,
                           double* staged_mean, double* staged_variance, float* mean, float* inverse, Element* y,
                           std::int64_t rows, std::int64_t width, double epsilon, void* scratch);

// The same by the running statistics (width). mean and inverse (width) are written on the way.
template <typename Element>
CudaError batch_norm_evaluate(CudaStream* stream, const Element* x, const float* gain, const float* shift,
                              const double* running_mean, const double* running_variance, float* mean, float* inverse,
                              Element* y, std::int64_t rows, std::int64_t width, double epsilon);

// dgain += and dshift += the gradients of the parameters (width); dx (+)= the gradient of the input, unless it is null.
template <typename Element>
CudaError batch_norm_backward(CudaStream* stream, const Element* x, const float* gain, const float* mean,
                              const float* inverse, const Element* dy, Element* dx, float* dgain, float* dshift,
                              std::int64_t rows, std::int64_t width, bool accumulate, void* scratch);

// Bytes of scratch of either pass, which must be aligned to 8.
size_t batch_norm_scratch(std::int64_t rows, std::int64_t width);

}  // namespace lockstep::trainer::cuda
