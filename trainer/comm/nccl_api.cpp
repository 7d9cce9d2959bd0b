#include "trainer/comm/nccl_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <vector>

namespace lockstep::trainer::comm {
namespace {

constexpr int kOldestNccl = 21400;  // the first with communicators that do not block

struct Library {
  void* handle = nullptr;
  std::string name;
  const char* flag;  // the flag that names another library
};

Result<Library> open_library(const std::vector<std::string>& names, const char* flag, const char* package) {
  std::string why;
  for (const std::string& name : names) {
    // Never closed: NCCL has threads of its own that outlive its communicators.
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return Library{handle, name, flag};
    const char* error = ::dlerror();
    why += fmt::format("{}{}", why.empty() ? "" : "; ", error != nullptr ? error : name);
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("no {} can be loaded ({}); give its path with {} or put its folder into LD_LIBRARY_PATH",
                          package, why, flag));
}

template <typename Function>
Status find(const Library& library, const char* symbol, Function*& function) {
  void* address = ::dlsym(library.handle, symbol);
  if (address == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("{} has no {}: it is too old or another library; give one with {}",
                                                  library.name, symbol, library.flag));
  }
  function = reinterpret_cast<Function*>(address);
  return {};
}

Status fill_nccl(const Library& library, NcclApi& api) {
  LOCKSTEP_CHECK_OK(find(library, "ncclGetVersion", api.get_version));
  LOCKSTEP_CHECK_OK(find(library, "ncclGetUniqueId", api.get_unique_id));
  LOCKSTEP_CHECK_OK(find(library, "ncclCommInitRankConfig", api.comm_init_rank_config));
  LOCKSTEP_CHECK_OK(find(library, "ncclCommFinalize", api.comm_finalize));
  LOCKSTEP_CHECK_OK(find(library, "ncclCommDestroy", api.comm_destroy));
  LOCKSTEP_CHECK_OK(find(library, "ncclCommAbort", api.comm_abort));
  LOCKSTEP_CHECK_OK(find(library, "ncclCommGetAsyncError", api.comm_get_async_error));
  LOCKSTEP_CHECK_OK(find(library, "ncclAllReduce", api.all_reduce));
  LOCKSTEP_CHECK_OK(find(library, "ncclBroadcast", api.broadcast));
  LOCKSTEP_CHECK_OK(find(library, "ncclSend", api.send));
  LOCKSTEP_CHECK_OK(find(library, "ncclRecv", api.receive));
  LOCKSTEP_CHECK_OK(find(library, "ncclGroupStart", api.group_start));
  LOCKSTEP_CHECK_OK(find(library, "ncclGroupEnd", api.group_end));
  LOCKSTEP_CHECK_OK(find(library, "ncclGetErrorString", api.error_string));
  return find(library, "ncclGetLastError", api.last_error);
}

Status fill_cuda(const Library& library, NcclApi& api) {
  LOCKSTEP_CHECK_OK(find(library, "cudaGetDeviceCount", api.get_device_count));
  LOCKSTEP_CHECK_OK(find(library, "cudaSetDevice", api.set_device));
  LOCKSTEP_CHECK_OK(find(library, "cudaStreamCreateWithFlags", api.stream_create));
  LOCKSTEP_CHECK_OK(find(library, "cudaStreamDestroy", api.stream_destroy));
  LOCKSTEP_CHECK_OK(find(library, "cudaEventCreateWithFlags", api.event_create));
  LOCKSTEP_CHECK_OK(find(library, "cudaEventRecord", api.event_record));
  LOCKSTEP_CHECK_OK(find(library, "cudaEventQuery", api.event_query));
  LOCKSTEP_CHECK_OK(find(library, "cudaEventDestroy", api.event_destroy));
  LOCKSTEP_CHECK_OK(find(library, "cudaMalloc", api.device_allocate));
  LOCKSTEP_CHECK_OK(find(library, "cudaFree", api.device_free));
  LOCKSTEP_CHECK_OK(find(library, "cudaMallocHost", api.host_allocate));
  LOCKSTEP_CHECK_OK(find(library, "cudaFreeHost", api.host_free));
  LOCKSTEP_CHECK_OK(find(library, "cudaMemcpyAsync", api.copy));
  return find(library, "cudaGetErrorString", api.cuda_error_string);
}

}  // namespace

Result<NcclApi> load_nccl(const std::string& nccl, const std::string& cudart) {
  const std::vector<std::string> default_nccl{"libnccl.so.2"};
  const std::vector<std::string> default_cudart{"libcudart.so.13", "libcudart.so.12"};
  LOCKSTEP_TRY(const Library nccl_library,
               open_library(nccl.empty() ? default_nccl : std::vector{nccl}, "--nccl-library", "NCCL"));
  LOCKSTEP_TRY(const Library cudart_library,
               open_library(cudart.empty() ? default_cudart : std::vector{cudart}, "--cudart-library", "CUDA runtime"));
  NcclApi api;
  LOCKSTEP_CHECK_OK(fill_nccl(nccl_library, api));
  LOCKSTEP_CHECK_OK(fill_cuda(cudart_library, api));
  int version = 0;
  if (api.get_version(&version) != NcclResult::kSuccess || version < kOldestNccl) {
    return fail(ErrorCode::kNotFound, fmt::format("{} is NCCL {}, and 2.14 is the oldest that can be used; give a "
                                                  "newer one with {}",
                                                  nccl_library.name, version, nccl_library.flag));
  }
  return api;
}

Result<int> choose_device(const NcclApi& api, int local_rank) {
  int count = 0;  // unchanged if there is no driver
  const CudaError error = api.get_device_count(&count);
  if (error != CudaError::kSuccess || count < 1) {
    return fail(ErrorCode::kNotFound,
                fmt::format("NCCL needs a GPU, and this process sees none ({}); without one leave --transport out",
                            error != CudaError::kSuccess ? api.cuda_error_string(error) : "no device"));
  }
  return local_rank % count;
}

Result<std::shared_ptr<const NcclSetup>> make_nccl_setup(const std::string& nccl, const std::string& cudart,
                                                         int local_rank) {
  auto setup = std::make_shared<NcclSetup>();
  LOCKSTEP_TRY(setup->api, load_nccl(nccl, cudart));
  LOCKSTEP_TRY(setup->device, choose_device(setup->api, local_rank));
  return std::shared_ptr<const NcclSetup>(std::move(setup));
}

}  // namespace lockstep::trainer::comm
