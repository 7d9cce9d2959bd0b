#include "trainer/cuda/runtime.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "trainer/cuda/library.h"

namespace lockstep::trainer::cuda {

Result<CudaRuntime> open_cuda_runtime(const std::string& library) {
  LOCKSTEP_TRY(Library cudart,
               Library::open(library.empty() ? std::vector<std::string>{"libcudart.so.13", "libcudart.so.12"}
                                             : std::vector{library},
                             "CUDA runtime", "--cudart-library"));
  CudaRuntime table;
  cudart.find(table.driver_get_version, "cudaDriverGetVersion");
  cudart.find(table.runtime_get_version, "cudaRuntimeGetVersion");
  cudart.find(table.get_device_count, "cudaGetDeviceCount");
  cudart.find(table.set_device, "cudaSetDevice");
  cudart.find(table.device_get_attribute, "cudaDeviceGetAttribute");
  cudart.find(table.get_device_properties, "cudaGetDeviceProperties");
  cudart.find(table.malloc, "cudaMalloc");
  cudart.find(table.free, "cudaFree");
  cudart.find(table.malloc_host, "cudaMallocHost");
  cudart.find(table.free_host, "cudaFreeHost");
  cudart.find(table.mem_get_info, "cudaMemGetInfo");
  cudart.find(table.memcpy_async, "cudaMemcpyAsync");
  cudart.find(table.memset_async, "cudaMemsetAsync");
  cudart.find(table.stream_create_with_flags, "cudaStreamCreateWithFlags");
  cudart.find(table.stream_destroy, "cudaStreamDestroy");
  cudart.find(table.stream_query, "cudaStreamQuery");
  cudart.find(table.stream_synchronize, "cudaStreamSynchronize");
  cudart.find(table.stream_wait_event, "cudaStreamWaitEvent");
  cudart.find(table.event_create_with_flags, "cudaEventCreateWithFlags");
  cudart.find(table.event_destroy, "cudaEventDestroy");
  cudart.find(table.event_record, "cudaEventRecord");
  cudart.find(table.event_query, "cudaEventQuery");
  cudart.find(table.event_synchronize, "cudaEventSynchronize");
  cudart.find(table.get_last_error, "cudaGetLastError");
  cudart.find(table.peek_at_last_error, "cudaPeekAtLastError");
  cudart.find(table.get_error_string, "cudaGetErrorString");
  LOCKSTEP_CHECK_OK(cudart.status());
  return table;
}

Result<int> count_gpus(const CudaRuntime& runtime) {
  int driver = 0, library = 0, count = 0;
  // The answers are 0 where a call fails, as without a driver.
  static_cast<void>(runtime.driver_get_version(&driver));
  static_cast<void>(runtime.runtime_get_version(&library));
  const CudaError error = runtime.get_device_count(&count);
  if (error == CudaError::kSuccess && count > 0) return count;
  static_cast<void>(runtime.get_last_error());
  const auto version = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
  if (driver == 0) {
    return fail(ErrorCode::kNotFound, "this machine has no NVIDIA driver, or the container does not show it");
  }
  if (error == CudaError::kInsufficientDriver) {
    return fail(ErrorCode::kNotFound, fmt::format("the NVIDIA driver supports CUDA {}, and the runtime is CUDA {}; "
                                                  "install a newer driver or an older runtime",
                                                  version(driver), version(library)));
  }
  if (error == CudaError::kNoDevice || error == CudaError::kSuccess) {
    return fail(ErrorCode::kNotFound, "the NVIDIA driver shows this process no GPU");
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("the NVIDIA driver does not start: CUDA says '{}'", runtime.get_error_string(error)));
}

Result<const CudaRuntime*> load_cuda_runtime(const std::string& library) {
  static std::mutex mutex;
  static auto* const loaded = new std::map<std::string, std::unique_ptr<const CudaRuntime>>();  // never destroyed
  const std::lock_guard lock(mutex);
  std::unique_ptr<const CudaRuntime>& table = (*loaded)[library];
  if (!table) {
    LOCKSTEP_TRY(CudaRuntime opened, open_cuda_runtime(library));
    table = std::make_unique<const CudaRuntime>(opened);
  }
  LOCKSTEP_CHECK_OK(count_gpus(*table));
  return table.get();
}

}  // namespace lockstep::trainer::cuda
