#include "trainer/backend/cuda/kernels/norm.h"

#include "trainer/backend/cuda/kernels/device.h"
#include "trainer/core/parallel.h"

namespace lockstep::trainer::cuda {

namespace {

constexpr int kLanes = 8;  // of a block of elements, as in core/norm.cpp
constexpr std::int64_t kElements = core::kBlock;
constexpr int kTreeThreads = 512;

// A thread for each lane of each block of elements: the order in which a lane sums is part of the result.
__global__ void sum_blocks_kernel(const float* values, std::int64_t count, double* sums, std::int64_t blocks) {
  const std::int64_t thread = thread_of_launch(), block = thread / kLanes;
  const std::int64_t begin = block * kElements, end = begin + kElements < count ? begin + kElements : count;
  double lane = 0;
  for (std::int64_t i = begin + thread % kLanes; i < end; i += kLanes) {
    const double x = static_cast<double>(values[i]);
    lane = __dadd_rn(lane, __dmul_rn(x, x));
  }
  for (int lanes = 1; lanes < kLanes; lanes *= 2) lane = __dadd_rn(lane, __shfl_xor_sync(0xffffffffU, lane, lanes));
  if (block < blocks && thread % kLanes == 0) sums[block] = lane;
}

// One block of threads: pairs of sums, pairs of pairs, and the root of what is left.
__global__ void tree_kernel(double* sums, std::int64_t blocks, double* norm) {
  for (std::int64_t stride = 1; stride < blocks; stride *= 2) {
    for (std::int64_t i = threadIdx.x * 2 * stride; i + stride < blocks; i += kTreeThreads * 2 * stride) {
      sums[i] = __dadd_rn(sums[i], sums[i + stride]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *norm = blocks == 0 ? 0 : __dsqrt_rn(sums[0]);
}

}  // namespace

CudaError norm(CudaStream* stream, const float* values, std::int64_t count, double* norm, void* scratch) {
  const std::int64_t blocks = blocks_for(count, kElements);
  auto* sums = static_cast<double*>(scratch);
  const CudaError error =
      launch(sum_blocks_kernel, blocks_for(blocks * kLanes), kThreads, 0, stream, values, count, sums, blocks);
  if (error != CudaError::kSuccess) return error;
  return launch(tree_kernel, 1, kTreeThreads, 0, stream, sums, blocks, norm);
}

size_t norm_scratch(std::int64_t count) {
  return static_cast<size_t>(blocks_for(count, kElements)) * sizeof(double);
}

}  // namespace lockstep::trainer::cuda
