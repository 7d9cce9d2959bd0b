// What the launchers of kernels have in common. A launcher enqueues its kernels on a stream and returns at once with
// what the launch answered; it never allocates and never waits. Scratch is memory of the device that the caller lends
// until the work is done; the function beside the launcher says how many bytes. No work (a count or a number of rows of
// 0) is a success without a launch.
//
// Every pointer is to memory of the device. Tensors are row-major float32. Results have the same bits in every run:
// sums have a fixed shape, which depends on the sizes alone.
//
// Plain C++17 without a header of CUDA: g++ includes it as well as nvcc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/cuda/types.h"
