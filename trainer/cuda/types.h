// Numbers and opaque types of the CUDA runtime, as cuda_runtime_api.h of CUDA 12 and 13 has them. C++17, because the
// headers of the kernels include it (trainer/backend/cuda/kernels/), and nvcc reads those.
#pragma once

namespace lockstep::trainer::cuda {

// The numbers that callers tell apart; CUDA has more. get_error_string() has a text for each.
enum class CudaError : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kMemoryAllocation = 2,
  kInitialization = 3,        // the driver is there and does not start
  kInvalidConfiguration = 9,  // of a launch: more threads or shared memory than the device has
  kInsufficientDriver = 35,   // older than the runtime, or there is none
  kNoDevice = 100,
  kInvalidDevice = 101,
  kNoKernelImageForDevice = 209,
  kUnsupportedPtxVersion = 222,  // the driver is too old to compile the kernels
  kInvalidResourceHandle = 400,  // a stream or an event that is none, or is another device's
  kNotReady = 600,               // of a query: no error
  kLaunchOutOfResources = 701,   // more registers than the device has
  kNotSupported = 801,
  // The device's work is lost, and every later call of the process fails with the same number.
  kIllegalAddress = 700,
  kLaunchFailure = 719,
};

enum class CudaCopy : int { kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3 };

enum class CudaAttribute : int {
  kMultiProcessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerBlockOptin = 97,  // bytes
};

// The start of cudaDeviceProp, which is the same in all releases, and room for the rest.
struct CudaDeviceProperties {
  char name[256];
  unsigned char uuid[16];
  unsigned char rest[4096 - 256 - 16];
};

struct CudaStream;  // opaque: cudaStream_t is a pointer to it
struct CudaEvent;   // opaque: cudaEvent_t is a pointer to it

inline constexpr unsigned kCudaStreamNonBlocking = 1;   // does not wait for the legacy stream
inline constexpr unsigned kCudaEventDisableTiming = 2;  // cheaper to record and to query

}  // namespace lockstep::trainer::cuda
