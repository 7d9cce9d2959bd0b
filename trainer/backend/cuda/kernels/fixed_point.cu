#include "trainer/backend/cuda/kernels/fixed_point.h"

#include "trainer/backend/cuda/kernels/device.h"
#include "trainer/core/fixed_point.h"

namespace lockstep::trainer::cuda {

namespace {

// As in core/fixed_point.cpp: adding 1.5 * 2^52 leaves the nearest integer in the low bits of the sum.
constexpr double kMagic = 6755399441055744.0;
constexpr double kLimit = static_cast<double>(std::int64_t{1} << core::kRoundedBits);

__global__ void round_and_clear_kernel(float* values, std::int64_t* sums, std::int64_t count, double scale, bool add,
                                       std::int64_t* flags) {
  const std::int64_t i = thread_of_launch();
  if (i >= count) return;
  const float value = values[i];
  const double x = __dmul_rn(static_cast<double>(value), scale);
  const bool fits = fabs(x) < kLimit;             // false for NaN as well
  if (!fits) flags[isfinite(value) ? 0 : 1] = 1;  // every thread that writes writes the same
  const std::int64_t rounded = __double_as_longlong(__dadd_rn(fits ? x : 0.0, kMagic)) - __double_as_longlong(kMagic);
  sums[i] = (add ? sums[i] : 0) + rounded;
  values[i] = 0;
}

// Elements of each thread of unround_kernel: fewer atomic operations.
constexpr std::int64_t kEach = 8;

__global__ void unround_kernel(const std::int64_t* sums, float* values, std::int64_t count, double scale,
                               unsigned long long* largest) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kThreads * kEach + threadIdx.x;
  unsigned long long found = 0;
  for (std::int64_t k = 0; k < kEach; ++k) {
    const std::int64_t i = begin + k * kThreads;
    if (i >= count) break;
    const std::int64_t sum = sums[i];
    const auto magnitude = static_cast<unsigned long long>(sum < 0 ? -sum : sum);
    found = magnitude > found ? magnitude : found;
    values[i] = static_cast<float>(__dmul_rn(static_cast<double>(sum), scale));
  }
  found = warp_max(found);
  if (lane_of_thread() == 0) atomicMax(largest, found);
}

}  // namespace

CudaError round_and_clear(CudaStream* stream, float* values, std::int64_t* sums, std::int64_t count, int exponent,
                          bool add, std::int64_t* flags) {
  return launch(round_and_clear_kernel, blocks_for(count), kThreads, 0, stream, values, sums, count,
                ldexp(1.0, exponent), add, flags);
}

CudaError unround(CudaStream* stream, const std::int64_t* sums, float* values, std::int64_t count, int exponent,
                  std::uint64_t* largest) {
  return launch(unround_kernel, blocks_for(count, kThreads * kEach), kThreads, 0, stream, sums, values, count,
                ldexp(1.0, -exponent), reinterpret_cast<unsigned long long*>(largest));
}

}  // namespace lockstep::trainer::cuda
