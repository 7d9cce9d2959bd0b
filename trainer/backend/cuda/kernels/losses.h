// Losses, one number for each sample, and their gradients.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

struct ClassifierShape {
  std::int64_t samples = 0;
  std::int64_t positions = 0;  // rows of one sample
  std::int64_t classes = 0;    // scores of one row

  std::int64_t rows() const { return samples * positions; }
};

// losses[s] = the mean over the sample's rows of the cross-entropy, in nats. A row's target gives its class
// 1 - smoothing and shares the rest out among all classes. scores (rows, classes), classes (rows), losses (samples); p
// (rows, classes) gets the probabilities, for the backward pass. A class outside [0, classes) makes the loss NaN.
template <typename Element>
CudaError softmax_cross_entropy_forward(CudaStream* stream, const ClassifierShape& shape, const Element* scores,
                                        const std::int32_t* classes, float smoothing, float* p, float* losses,
                                        void* scratch);
// Bytes of scratch of softmax_cross_entropy_forward.
size_t softmax_cross_entropy_scratch(const ClassifierShape& shape);

// dscores (+)= scale (p - target); `scale` is the loss's scale over the positions.
template <typename Element>
CudaError softmax_cross_entropy_backward(CudaStream* stream, const ClassifierShape& shape, const float* p,
                                         const std::int32_t* classes, float smoothing, float scale, Element* dscores,
                                         bool accumulate);

// losses[s] = the mean of (x - target)^2 over the `each` elements of the sample; x, target (samples, each).
template <typename Element>
CudaError mean_squared_error_forward(CudaStream* stream, const Element* x, const float* target, float* losses,
                                     std::int64_t samples, std::int64_t each);
// dx (+)= scale (x - target).
template <typename Element>
CudaError mean_squared_error_backward(CudaStream* stream, const Element* x, const float* target, float scale,
                                      Element* dx, std::int64_t count, bool accumulate);

}  // namespace lockstep::trainer::cuda
