// The CUDA runtime as a table of function pointers that is filled at run time. Neither the library nor its headers are
// needed to build: one program runs with a GPU and without.
//
// Declares the signatures of cuda_runtime_api.h of CUDA 12 and 13. Tests load a fake with the same C names.
#pragma once

#include <cstddef>
#include <string>

#include "operator/base/result.h"
#include "trainer/cuda/types.h"

namespace lockstep::trainer::cuda {

// Every pointer is set. The functions promise what NVIDIA's manual says of those of the same name (cudaMalloc is
// `malloc`), on the device that the calling thread has set. Any thread.
struct CudaRuntime {
  CudaError (*driver_get_version)(int* version) = nullptr;   // 13020 is CUDA 13.2; 0: no driver
  CudaError (*runtime_get_version)(int* version) = nullptr;  // the same of the library
  CudaError (*get_device_count)(int* count) = nullptr;       // leaves the count as it was if there is no driver
  CudaError (*set_device)(int device) = nullptr;             // of the calling thread
  CudaError (*device_get_attribute)(int* value, CudaAttribute attribute, int device) = nullptr;
  CudaError (*get_device_properties)(CudaDeviceProperties* properties, int device) = nullptr;

  CudaError (*malloc)(void** memory, size_t bytes) = nullptr;       // of the device; waits for its work
  CudaError (*free)(void* memory) = nullptr;                        // null: none; waits for the device's work
  CudaError (*malloc_host)(void** memory, size_t bytes) = nullptr;  // pinned; waits as malloc does
  CudaError (*free_host)(void* memory) = nullptr;
  CudaError (*mem_get_info)(size_t* free_bytes, size_t* total_bytes) = nullptr;  // of the device

  // Copies with memory of the host that is not pinned may wait for the stream.
  CudaError (*memcpy_async)(void* to, const void* from, size_t bytes, CudaCopy direction, CudaStream* stream) = nullptr;
  CudaError (*memset_async)(void* to, int byte, size_t bytes, CudaStream* stream) = nullptr;

  CudaError (*stream_create_with_flags)(CudaStream** stream, unsigned flags) = nullptr;
  CudaError (*stream_destroy)(CudaStream* stream) = nullptr;
  CudaError (*stream_query)(CudaStream* stream) = nullptr;  // kNotReady: there is work in it
  CudaError (*stream_synchronize)(CudaStream* stream) = nullptr;
  // What comes after it in the stream waits for the event's latest record. `flags`: 0.
  CudaError (*stream_wait_event)(CudaStream* stream, CudaEvent* event, unsigned flags) = nullptr;

  CudaError (*event_create_with_flags)(CudaEvent** event, unsigned flags) = nullptr;
  CudaError (*event_destroy)(CudaEvent* event) = nullptr;
  CudaError (*event_record)(CudaEvent* event, CudaStream* stream) = nullptr;
  CudaError (*event_query)(CudaEvent* event) = nullptr;  // of the latest record; an event never recorded is done
  CudaError (*event_synchronize)(CudaEvent* event) = nullptr;

  CudaError (*get_last_error)() = nullptr;      // of the calling thread; clears it, unless the device's work is lost
  CudaError (*peek_at_last_error)() = nullptr;  // does not clear it
  const char* (*get_error_string)(CudaError error) = nullptr;
};

// Opens the library, by name (as the dynamic linker finds it) or by path, and keeps it loaded until the process ends.
// An empty name means libcudart.so.13 or else libcudart.so.12. kNotFound says which library or symbol is missing and
// what to do. Needs neither a driver nor a GPU.
Result<CudaRuntime> open_cuda_runtime(const std::string& library = "");

// How many GPUs this process sees, at least one. kNotFound, with one sentence each: no driver, a driver that is older
// than the runtime, no GPU, a driver that does not start.
Result<int> count_gpus(const CudaRuntime& runtime);

// Both of the above: a runtime with a GPU to use it on. The table stays valid until the process ends, and the same
// library always yields the same table. Any thread.
Result<const CudaRuntime*> load_cuda_runtime(const std::string& library = "");

}  // namespace lockstep::trainer::cuda
