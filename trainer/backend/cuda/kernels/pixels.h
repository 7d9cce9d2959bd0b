// Images that reach the device as bytes.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// to[i] = values[i % 3][pixels[i]], where `values` are (3, 256).
CudaError spread_pixels(CudaStream* stream, const std::uint8_t* pixels, const float* values, float* to,
                        std::int64_t count);

}  // namespace lockstep::trainer::cuda
