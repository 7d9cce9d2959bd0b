#include "trainer/cuda/runtime.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::trainer::cuda {
namespace {

Result<void*> open_any(const std::vector<std::string>& names, std::string& opened) {
  std::string why;
  for (const std::string& name : names) {
    // Never closed: the runtime has threads of its own.
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      opened = name;
      return handle;
    }
    const char* error = ::dlerror();
    why += fmt::format("{}{}", why.empty() ? "" : "; ", error != nullptr ? error : name);
  }
  return fail(ErrorCode::kNotFound, fmt::format("no CUDA runtime can be loaded ({}); give its path with "
                                                "--cudart-library or put its folder into LD_LIBRARY_PATH",
                                                why));
}

// Fills pointers until one symbol is missing.
class Finder {
 public:
  Finder(void* handle, std::string library) : handle_(handle), library_(std::move(library)) {}

  template <typename Function>
  void operator()(Function*& function, const char* symbol) {
    if (!status_) return;
    void* address = ::dlsym(handle_, symbol);
    if (address == nullptr) {
      status_ = fail(ErrorCode::kNotFound, fmt::format("{} has no {}: it is too old or another library; give one with "
                                                       "--cudart-library",
                                                       library_, symbol));
      return;
    }
    function = reinterpret_cast<Function*>(address);
  }
  const Status& status() const { return status_; }

 private:
  void* const handle_;
  const std::string library_;
  Status status_;
};

}  // namespace

Result<CudaRuntime> open_cuda_runtime(const std::string& library) {
  std::string opened;
  LOCKSTEP_TRY(
      void* const handle,
      open_any(library.empty() ? std::vector<std::string>{"libcudart.so.13", "libcudart.so.12"} : std::vector{library},
               opened));
  Finder find(handle, opened);
  CudaRuntime table;
  find(table.driver_get_version, "cudaDriverGetVersion");
  find(table.runtime_get_version, "cudaRuntimeGetVersion");
  find(table.get_device_count, "cudaGetDeviceCount");
  find(table.set_device, "cudaSetDevice");
  find(table.device_get_attribute, "cudaDeviceGetAttribute");
  find(table.get_device_properties, "cudaGetDeviceProperties");
  find(table.malloc, "cudaMalloc");
  find(table.free, "cudaFree");
  find(table.malloc_host, "cudaMallocHost");
  find(table.free_host, "cudaFreeHost");
  find(table.mem_get_info, "cudaMemGetInfo");
  find(table.memcpy_async, "cudaMemcpyAsync");
  find(table.memset_async, "cudaMemsetAsync");
  find(table.stream_create_with_flags, "cudaStreamCreateWithFlags");
  find(table.stream_destroy, "cudaStreamDestroy");
  find(table.stream_query, "cudaStreamQuery");
  find(table.stream_synchronize, "cudaStreamSynchronize");
  find(table.stream_wait_event, "cudaStreamWaitEvent");
  find(table.event_create_with_flags, "cudaEventCreateWithFlags");
  find(table.event_destroy, "cudaEventDestroy");
  find(table.event_record, "cudaEventRecord");
  find(table.event_query, "cudaEventQuery");
  find(table.event_synchronize, "cudaEventSynchronize");
  find(table.get_last_error, "cudaGetLastError");
  find(table.peek_at_last_error, "cudaPeekAtLastError");
  find(table.get_error_string, "cudaGetErrorString");
  LOCKSTEP_CHECK_OK(find.status());
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
