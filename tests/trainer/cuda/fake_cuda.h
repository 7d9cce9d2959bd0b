// A fake of the CUDA runtime for machines without a GPU, as a shared library (libfakecuda.so) with the names of the
// real one. trainer/cuda/runtime.h loads it unchanged. It is not NVIDIA's. Kernels run on it as functions of the host.
// Where programs tend to fail it behaves as badly as the real runtime may:
//   * Work is late. A stream is a queue with a thread. The thread does nothing until a call waits for the work or asks
//     about it, directly or through an event on which wanted work waits. It begins as well when kMostHeldBack pieces
//     are in the queue.
//   * The host cannot touch memory of the device: work sees it at another address. It begins as all-ones bytes (NaN),
//     pinned memory too. Pages that cannot be touched lie around it.
//   * An event stands for its latest record. A query that is not ready leaves kNotReady as the thread's last error.
//   * malloc, free and their like wait for the device. A copy with pageable memory waits for its stream.
//   * Once the device's work is lost, what is in its streams does not run, and every call fails with the same error.
//   * What the real runtime leaves undefined ends the process with a sentence. Such are a pointer of the wrong kind,
//     bytes beyond an allocation, a stream or an event that is none.
//
// Environment, read when the library is loaded:
//   FAKE_CUDA_DEVICES=N      GPUs that the process sees (16, the most)
//   FAKE_CUDA_DRIVER=N       the driver's version as cudaDriverGetVersion tells it (13020); 0: no driver
//   FAKE_CUDA_MEMORY_MIB=N   memory of each device (4096)
//   FAKE_CUDA_OTHERS_MIB=N   of that, what another process holds (0)
//   FAKE_CUDA_OTHERS_LOOKS=N it is given back in the Nth call of cudaMemGetInfo (never)
//   FAKE_CUDA_CAPABILITY=N   compute capability of each device, ten times (90)
//   FAKE_CUDA_LAUNCH_ERROR=N the error that every launch answers (0)
//   FAKE_CUDA_FAIL_AFTER=N   as fake_cuda_fail_after
//   FAKE_CUDA_KILL=NAME:N    the process ends by SIGKILL when the Nth kernel (from 1) whose name begins with NAME runs
//   FAKE_CUDA_EAGER=1        work is not held back
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "trainer/cuda/types.h"

extern "C" {

// The first kernel after the next n (of this process) breaks its device with kLaunchFailure; below 0: none does.
void fake_cuda_fail_after(long n);
// Makes every device usable again. What was lost stays lost.
void fake_cuda_mend();
// cudaMemcpyAsync does not return before fake_cuda_release().
void fake_cuda_hang_copies();
// Calls that hang at the moment; releases them.
int fake_cuda_hanging();
void fake_cuda_release();
// Bytes of memory of all devices, and of pinned memory, that were taken and not given back.
size_t fake_cuda_device_bytes();
size_t fake_cuda_pinned_bytes();
}

// For emulated kernels and the fakes of other libraries. Any thread.
namespace lockstep::trainer::cuda::fake {

inline constexpr size_t kMostHeldBack = 1024;

// Work that was enqueued: a kernel by its name, a copy to the device as "up BYTES".
struct Enqueued {
  CudaStream* stream = nullptr;
  std::string what;
};
// Lists such work from now on, in the order of the calls. Ends the list and returns it.
void begin_list();
std::vector<Enqueued> end_list();
// Enqueues a kernel. kInvalidResourceHandle: the stream is none, or belongs to another device than the thread's.
CudaError launch(CudaStream* stream, std::function<void()> kernel, const char* name = "");
// Ends the process by SIGKILL, and says before it what it was doing.
[[noreturn]] void kill_process(const std::string& doing);
// Enqueues work of another library, which begins without being asked about. False: there is no such stream.
bool put(CudaStream* stream, std::function<void()> work);
// Where work sees the memory of the device at `address`, of which it uses so many bytes. Null stays null. Ends the
// process if it is not memory of the device.
void* inside(const void* address);
void* inside(const void* address, size_t bytes);
// Whether all these bytes are memory of one allocation on the device.
bool on_device(const void* address, size_t bytes);
// Returns once fake_cuda_release() is called after it.
void hang();

}  // namespace lockstep::trainer::cuda::fake
