// A convolution of each channel of images by itself. Its sums are short and bound by memory, and cuDNN's engines for
// matrices do not suit them.
//
// x and dx (samples, height, width, channels), y and dy (samples, out_height, out_width, channels), weight and dweight
// (channels, kernel, kernel). x, dx, y, dy and the scratch are aligned to 16 bytes.
#pragma once

#include "trainer/backend/cuda/kernels/slid_images.h"

namespace lockstep::trainer::cuda {

// y = the convolution of x, plus the bias (channels) unless that is null. Pixels beyond the image count as 0.
template <typename Element>
CudaError depthwise_forward(CudaStream* stream, const SlidImages& images, const Element* x, const float* weight,
                            const float* bias, Element* y, void* scratch);

// dx = the gradient of the input, or dx += with `accumulate`.
template <typename Element>
CudaError depthwise_backward_input(CudaStream* stream, const SlidImages& images, const Element* dy, const float* weight,
                                   Element* dx, bool accumulate, void* scratch);

// dweight += the gradient of the weights.
template <typename Element>
CudaError depthwise_backward_weight(CudaStream* stream, const SlidImages& images, const Element* x, const Element* dy,
                                    float* dweight, void* scratch);

// Bytes of scratch of depthwise_forward() and of depthwise_backward_input().
size_t depthwise_scratch(const SlidImages& images);
// Bytes of scratch of depthwise_backward_weight().
size_t depthwise_weight_scratch(const SlidImages& images);

}  // namespace lockstep::trainer::cuda
