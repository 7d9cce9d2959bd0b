#include "trainer/comm/nccl_api.h"

#include <fmt/format.h>

#include "trainer/cuda/library.h"

namespace lockstep::trainer::comm {
namespace {

constexpr const char* kLibraryFlag = "--nccl-library";
// The functions are those of 2.14. The CUDA image has 2.30.7, and releases before 2.30.3 are not supported.
constexpr int kOldestNccl = 23003;

// Of what ncclGetVersion returns, from 2.9 on: 23003 is 2.30.3.
std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Status fill_nccl(cuda::Library& library, NcclApi& api) {
  library.find(api.get_version, "ncclGetVersion");
  library.find(api.get_unique_id, "ncclGetUniqueId");
  library.find(api.comm_init_rank_config, "ncclCommInitRankConfig");
  library.find(api.comm_finalize, "ncclCommFinalize");
  library.find(api.comm_destroy, "ncclCommDestroy");
  library.find(api.comm_abort, "ncclCommAbort");
  library.find(api.comm_get_async_error, "ncclCommGetAsyncError");
  library.find(api.all_reduce, "ncclAllReduce");
  library.find(api.broadcast, "ncclBroadcast");
  library.find(api.send, "ncclSend");
  library.find(api.receive, "ncclRecv");
  library.find(api.group_start, "ncclGroupStart");
  library.find(api.group_end, "ncclGroupEnd");
  library.find(api.error_string, "ncclGetErrorString");
  library.find(api.last_error, "ncclGetLastError");
  return library.status();
}

}  // namespace

Result<NcclApi> load_nccl(const std::string& nccl, const std::string& cudart) {
  LOCKSTEP_TRY(cuda::Library library,
               cuda::Library::open({nccl.empty() ? std::string("libnccl.so.2") : nccl}, "NCCL", kLibraryFlag));
  NcclApi api;
  LOCKSTEP_TRY(api.cuda, cuda::open_cuda_runtime(cudart));
  LOCKSTEP_CHECK_OK(fill_nccl(library, api));
  int version = 0;
  if (api.get_version(&version) != NcclResult::kSuccess || version < kOldestNccl) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{} is NCCL {}, and --transport=nccl needs {} or later; give one with {}", library.name(),
                            version_text(version), version_text(kOldestNccl), kLibraryFlag));
  }
  return api;
}

Result<int> choose_device(const NcclApi& api, int local_rank) {
  int count = 0;  // unchanged if there is no driver
  const cuda::CudaError error = api.cuda.get_device_count(&count);
  if (error != cuda::CudaError::kSuccess || count < 1) {
    return fail(ErrorCode::kNotFound,
                fmt::format("NCCL needs a GPU, and this process sees none ({}); without one leave --transport out",
                            error != cuda::CudaError::kSuccess ? api.cuda.get_error_string(error) : "no device"));
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
