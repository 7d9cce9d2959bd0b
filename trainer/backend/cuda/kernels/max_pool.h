// The largest value of each channel in a window that slides over images.
//
// x and dx (samples, height, width, channels), y, dy and chosen (samples, out_height, out_width, channels). All are
// aligned to 16 bytes.
#pragma once

#include "trainer/backend/cuda/kernels/slid_images.h"

namespace lockstep::trainer::cuda {

// y = the largest value of each window; a NaN is larger than all. Pixels beyond the image do not count; each window has
// one inside. chosen = the pixel of the window that y is from, row * kernel + column: the first of equal ones.
template <typename Element>
CudaError max_pool_forward(CudaStream* stream, const SlidImages& images, const Element* x, Element* y,
                           std::int32_t* chosen);

// dx (+)= the sum of dy over the windows that chose the pixel.
template <typename Element>
CudaError max_pool_backward(CudaStream* stream, const SlidImages& images, const Element* dy, const std::int32_t* chosen,
                            Element* dx, bool accumulate);

}  // namespace lockstep::trainer::cuda
