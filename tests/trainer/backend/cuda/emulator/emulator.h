// Runs CUDA kernels on the host, so that tests need no GPU. g++ compiles the same .cu files as nvcc, with
// kernel_language.h in place of CUDA's headers. Each thread of a block is a fiber; blocks run one after the other.
//
// A kernel that breaks a rule of CUDA ends the process with a sentence on stderr that names block and thread:
// - a thread touches a shared array outside its bounds;
// - a thread reads an element of a shared array that nobody has written;
// - two threads touch one element without a barrier between them, and one of them writes (a missing __syncthreads());
// - threads of a block wait at different barriers, or at one that others never reach;
// - a lane of a warp takes no part in a shuffle;
// - a block has more shared memory than 48 KiB.
//
// What it cannot find: races through memory of the device, and accesses outside of it. For the first, tests run each
// kernel in every Order; for the second, they put guards around their arrays, or run under AddressSanitizer. It has no
// tensor cores and no asynchronous copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "trainer/cuda/types.h"

namespace lockstep::trainer::cuda::emulator {

// In which order the threads that can run do so, up to their next barrier or shuffle.
enum class Order : int {
  kAscending = 0,
  kDescending = 1,
  kLanesFirst = 2,  // lane 0 of every warp, then lane 1; blocks ascend by even numbers, then odd ones
  kWarpsFirst = 3,  // each warp as far as it can, the last warp first
  kShuffled = 4,
};
inline constexpr int kOrders = 5;

// Of all launches of the process from then on; kAscending before. Any thread.
void set_order(Order order);

// How launches reach a stream. Both are set before the first launch on a stream, by the fake runtime.
struct Hooks {
  // Appends the work of a launch to the stream; `kernel` begins with the kernel's name. What it returns is what
  // launch() returns.
  CudaError (*enqueue)(CudaStream* stream, const char* kernel, std::function<void()> work) = nullptr;
  // Where the work of a stream may touch the memory of the device at `pointer`, which is not null. Called from that
  // work, for each pointer among the kernel's parameters. Does not return for a pointer that is none of the device's.
  void* (*inside)(const void* pointer) = nullptr;
};
void set_hooks(const Hooks& hooks);

// The size of a launch.
struct LaunchSize {
  std::int64_t blocks = 0;
  int threads = 0;  // of a block, at most 1024
  size_t shared_bytes = 0;
};

// Called by launch(). Without a stream, runs the work at once on the calling thread with pointers as they are. With
// one, hands it to the hook. kInvalidConfiguration: more threads, blocks or shared memory than a device has.
CudaError launch_on(CudaStream* stream, const char* kernel, const LaunchSize& size,
                    std::function<void(bool translate)> work);
// Runs kernel() for each thread of each block, on the calling thread.
void run_blocks(const LaunchSize& size, const std::function<void()>& kernel);
// The hook.
void* inside(const void* pointer);

}  // namespace lockstep::trainer::cuda::emulator
