// Real numbers as int64 times a power of two (core/fixed_point.h), bit by bit as on the host.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// sums (+)= round(values * 2^exponent), and values = 0. What does not fit counts as 0. Sets flags[0] to 1 where a
// finite number was too large and flags[1] where a NaN or an infinity was met; else they stay as they are (the two
// fields of core::RoundingFlags, in its order).
CudaError round_and_clear(CudaStream* stream, float* values, std::int64_t* sums, std::int64_t count, int exponent,
                          bool add, std::int64_t* flags);

// values = sums * 2^-exponent. Raises *largest to the largest |sum|; the caller clears it before.
CudaError unround(CudaStream* stream, const std::int64_t* sums, float* values, std::int64_t count, int exponent,
                  std::uint64_t* largest);

}  // namespace lockstep::trainer::cuda
