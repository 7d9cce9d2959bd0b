// The mean of each channel over all pixels of an image.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// y = the mean of x's pixels; x (samples, pixels, channels), y (samples, channels). At least one pixel.
template <typename Element>
CudaError global_average_pool_forward(CudaStream* stream, const Element* x, Element* y, std::int64_t samples,
                                      std::int64_t pixels, std::int64_t channels);

// dx (+)= dy / pixels, to each pixel; dx (samples, pixels, channels), dy (samples, channels).
template <typename Element>
CudaError global_average_pool_backward(CudaStream* stream, const Element* dy, Element* dx, std::int64_t samples,
                                       std::int64_t pixels, std::int64_t channels, bool accumulate);

}  // namespace lockstep::trainer::cuda
