// The Euclidean norm of a flat array by the tree of core/norm.h, bit by bit as on the host.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// *norm = the norm of `count` values; 0 for none. `norm` is memory of the device.
CudaError norm(CudaStream* stream, const float* values, std::int64_t count, double* norm, void* scratch);
// Bytes of scratch of norm(), which must be aligned to 8.
size_t norm_scratch(std::int64_t count);

}  // namespace lockstep::trainer::cuda
