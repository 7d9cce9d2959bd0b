// For the .cu files: the digest of a block of floats, as core/digest.h has it. Each of its lanes is a thread's.
#pragma once

#include "trainer/backend/cuda/kernels/launch.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::cuda {

inline constexpr int kDigestLanes = 8;

// Lane `lane` of the digest of `count` floats. A lane takes every eighth word of 8 bytes; what is missing in the last
// eight words is zeros.
inline __device__ std::uint64_t digest_lane(const float* values, std::int64_t count, int lane) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;
  std::uint64_t digest = core::mix(static_cast<std::uint64_t>(lane));
  for (std::int64_t first = 0; first < count; first += 2 * kDigestLanes) {
    const std::int64_t i = first + 2 * lane;
    const std::uint64_t low = i < count ? __float_as_uint(values[i]) : 0;
    const std::uint64_t high = i + 1 < count ? __float_as_uint(values[i + 1]) : 0;
    digest = (digest ^ (low | high << 32)) * kFactor;
    digest ^= digest >> 32;
  }
  return digest;
}

// The digest of block `block` of array `array`, which has `count` floats, from its lanes.
inline __device__ std::uint64_t digest_of_lanes(const Shared<std::uint64_t>& lanes, std::uint64_t array,
                                                std::uint64_t block, std::int64_t count) {
  std::uint64_t digest = core::derive(core::derive(std::uint64_t{0x6c6f636b73746570}, array), block);
  digest = core::derive(digest, static_cast<std::uint64_t>(count) * sizeof(float));
  for (int i = 0; i < kDigestLanes; ++i) digest = core::derive(digest, static_cast<std::uint64_t>(lanes[i]));
  return digest;
}

}  // namespace lockstep::trainer::cuda
