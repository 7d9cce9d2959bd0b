// What the launchers of kernels have in common. A launcher enqueues its kernels on a stream and returns at once with
// what the launch answered; it never allocates and never waits. Scratch is memory of the device that the caller lends
// until the work is done; the function beside the launcher says how many bytes. No work (a count or a number of rows of
// 0) is a success without a launch.
//
// Every pointer is to memory of the device. Tensors are row-major. `Element` is float or Bfloat16: the type of
// activations and their gradients. Arithmetic is in float, and what is stored as Bfloat16 rounds once. Results are
// bitwise identical in every run: sums have a fixed shape, which depends on the sizes alone.
//
// Plain C++17 without a header of CUDA: g++ includes it as well as nvcc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/cuda/types.h"

namespace lockstep::trainer::cuda {

// The upper half of a float32. Kernels widen and round it (device.h).
struct Bfloat16 {
  std::uint16_t bits;
};

}  // namespace lockstep::trainer::cuda
