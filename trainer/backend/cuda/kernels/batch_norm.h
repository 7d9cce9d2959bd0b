// Normalises each column over all rows in training, by running statistics in evaluation. In the same kernels: the sum
// with another tensor, and an activation.
#pragma once

#include "trainer/backend/activation.h"
#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// y = activation((x - mean) inverse gain + shift + other), where inverse = 1 / sqrt(variance + epsilon), with the
// biased variance.
template <typename Element>
struct BatchNormSite {
  std::int64_t rows, width;  // at least two rows
  const Element* x;          // (rows, width)
  const Element* other;      // (rows, width); null: 0
  const float* gain;         // (width)
  const float* shift;        // (width)
  // (width) Of the forward pass, which writes them for the backward pass.
  float* mean;
  float* inverse;
  backend::Activation activation;
};

// Where gradients go.
template <typename Element>
struct BatchNormGradients {
  Element* dx;     // (rows, width); null: not wanted
  Element* other;  // (rows, width); null: not wanted, or there is no other tensor
  bool adds_to_dx, adds_to_other;
  float* gain;   // (width); added to
  float* shift;  // (width); added to
};

// Written: y (rows, width); staged_mean and staged_variance (width), which is the unbiased one.
template <typename Element>
CudaError batch_norm_train(CudaStream* stream, const BatchNormSite<Element>& site, double* staged_mean,
                           double* staged_variance, Element* y, double epsilon, void* scratch);

// The same by the running statistics (width).
template <typename Element>
CudaError batch_norm_evaluate(CudaStream* stream, const BatchNormSite<Element>& site, const double* running_mean,
                              const double* running_variance, Element* y, double epsilon);

// Writes y (rows, width) again, bitwise identical, from the mean and the inverse of the forward pass.
template <typename Element>
CudaError batch_norm_recompute(CudaStream* stream, const BatchNormSite<Element>& site, Element* y);

// y (rows, width): what the forward pass wrote. It is read where there are another tensor and an activation; else it
// may be null. dy (rows, width).
template <typename Element>
CudaError batch_norm_backward(CudaStream* stream, const BatchNormSite<Element>& site, const Element* y,
                              const Element* dy, const BatchNormGradients<Element>& gradients, void* scratch);

// Bytes of scratch of either pass, which must be aligned to 8.
size_t batch_norm_scratch(std::int64_t rows, std::int64_t width);

}  // namespace lockstep::trainer::cuda
