// Pieces of kernels that several .cu files use.
#pragma once

#include "trainer/backend/cuda/kernels/launch.h"

namespace lockstep::trainer::cuda {

inline __device__ float wide(float value) {
  return value;
}
inline __device__ float wide(Bfloat16 value) {
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
}

// Rounded to nearest, ties to the even one. A NaN stays one.
template <typename Element>
__device__ Element rounded(float value);
template <>
inline __device__ float rounded<float>(float value) {
  return value;
}
template <>
inline __device__ Bfloat16 rounded<Bfloat16>(float value) {
  if (value != value) return {0x7fc0};
  const std::uint32_t bits = __float_as_uint(value);
  return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
}

// *at = value, or *at += value.
template <typename Element>
__device__ void put(Element* at, float value, bool accumulate) {
  *at = rounded<Element>(accumulate ? wide(*at) + value : value);
}

// `i` in rows of `width`. Neither is negative.
struct RowAndColumn {
  std::int64_t row, column;
};

// A division of 64 bits takes a GPU about 70 instructions, one of 32 bits 20.
inline __device__ RowAndColumn row_and_column(std::int64_t i, std::int64_t width) {
  if ((i | width) >> 32 != 0) return {i / width, i % width};
  const auto small = static_cast<std::uint32_t>(i), divisor = static_cast<std::uint32_t>(width);
  return {small / divisor, small % divisor};
}

// The sum over the warp, to each lane: pairs, then pairs of pairs. The lanes of a warp must all call it.
template <typename T>
__device__ T warp_sum(T value) {
  for (int lanes = 1; lanes < kWarpSize; lanes *= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
  return value;
}

// The largest of the warp, to each lane. A NaN may be passed over.
template <typename T>
__device__ T warp_max(T value) {
  for (int lanes = 1; lanes < kWarpSize; lanes *= 2) {
    const T other = __shfl_xor_sync(0xffffffffU, value, lanes);
    value = other > value ? other : value;
  }
  return value;
}

// Threads of a block of which each warp computes a row.
inline constexpr int kRowThreads = 128;

// Blocks of kRowThreads for `rows` rows.
inline std::int64_t row_blocks(std::int64_t rows) {
  return blocks_for(rows, kRowThreads / kWarpSize);
}

// The row that the running thread's warp computes.
inline __device__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * (kRowThreads / kWarpSize) + threadIdx.x / kWarpSize;
}

inline __device__ std::int64_t lane_of_thread() {
  return threadIdx.x % kWarpSize;
}

}  // namespace lockstep::trainer::cuda
