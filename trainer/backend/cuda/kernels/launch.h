// For the .cu files: CUDA's language, or the emulator that tests compile them with, and launch() in place of <<<>>>.
//
// A kernel's parameters are scalars, structs of scalars, or pointers into memory of the device, each a parameter of its
// own. A kernel shuffles whole warps only, and reaches shared memory through the two macros alone.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

#ifdef __CUDACC__

#include <cuda_runtime.h>

// Declares `name` as a Shared<type> with `count` elements.
#define LOCKSTEP_SHARED(type, name, count) __shared__ type name[count]
// Declares `name` as the Shared<type> whose bytes the launch says. One type for each .cu file.
#define LOCKSTEP_DYNAMIC_SHARED(type, name) extern __shared__ type name[]

namespace lockstep::trainer::cuda {

// A pointer to shared memory.
template <typename T>
using Shared = T*;

// Enqueues `blocks` blocks of `threads` threads. Returns what the launch returned. No blocks: a success without one.
template <typename... Parameters, typename... Arguments>
CudaError launch(void (*kernel)(Parameters...), std::int64_t blocks, int threads, size_t shared_bytes,
                 CudaStream* stream, Arguments... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  if (blocks <= 0) return CudaError::kSuccess;
  if (blocks > 0x7fffffff) return CudaError::kInvalidConfiguration;
  const auto call = [&](Parameters... parameters) {
    void* addresses[] = {const_cast<void*>(static_cast<const void*>(&parameters))...};
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                            dim3(static_cast<unsigned>(threads)), addresses, shared_bytes,
                            reinterpret_cast<cudaStream_t>(stream));
  };
  return static_cast<CudaError>(call(arguments...));
}

}  // namespace lockstep::trainer::cuda

#else
#include "kernel_language.h"  // of the emulator (tests/trainer/backend/cuda/emulator)
#endif

namespace lockstep::trainer::cuda {

inline constexpr int kThreads = 256;  // of a block, where nothing asks for another number
inline constexpr int kWarpSize = 32;

// Blocks of kThreads for `count` elements, one thread for each.
inline std::int64_t blocks_for(std::int64_t count, std::int64_t each = kThreads) {
  return (count + each - 1) / each;
}

// Launches until one fails. Kernels without dynamic shared memory.
class Launches {
 public:
  explicit Launches(CudaStream* stream) : stream_(stream) {}

  template <typename Kernel, typename... Arguments>
  void operator()(Kernel kernel, std::int64_t blocks, int threads, Arguments... arguments) {
    if (error_ == CudaError::kSuccess) error_ = launch(kernel, blocks, threads, 0, stream_, arguments...);
  }
  CudaError error() const { return error_; }

 private:
  CudaStream* stream_;
  CudaError error_ = CudaError::kSuccess;
};

// The place of the running thread among all threads of the launch.
inline __device__ std::int64_t thread_of_launch() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace lockstep::trainer::cuda
