// The parts of NCCL that a communicator needs, as a table of function pointers that is filled at run time. The CUDA
// runtime has such a table, too. Neither NCCL nor its header is needed to build; one program runs with a GPU and
// without.
//
// Declares the binary interface of nccl.h of NCCL 2.28: numbers, structs and signatures. NCCL reads as much of the
// configuration as its `size` says, so later releases accept it too.
#pragma once

#include <climits>
#include <cstddef>
#include <memory>
#include <string>

#include "operator/base/result.h"
#include "trainer/cuda/runtime.h"

namespace lockstep::trainer::comm {

using cuda::CudaStream;

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,  // the call had no effect; every other error ends the communicator
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,  // of a non-blocking communicator: ask for the asynchronous error until it is another
};

enum class NcclType : int {
  kUint8 = 1,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat32 = 7,
  kFloat64 = 8,
};

enum class NcclOperation : int { kSum = 0, kMax = 2 };

struct NcclUniqueId {
  char internal[128];
};

struct NcclComm;  // opaque: ncclComm_t is a pointer to it

struct NcclConfig {
  static constexpr int kUndefined = INT_MIN;

  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 22800;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_ctas = kUndefined;
  int channels_per_net_peer = kUndefined;
  int nvlink_centric_scheduling = kUndefined;
};

// Every pointer is set. The functions promise what NVIDIA's manuals say of those of the same name.
struct NcclApi {
  NcclResult (*get_version)(int* version) = nullptr;
  NcclResult (*get_unique_id)(NcclUniqueId* id) = nullptr;
  NcclResult (*comm_init_rank_config)(NcclComm** comm, int ranks, NcclUniqueId id, int rank,
                                      NcclConfig* config) = nullptr;
  NcclResult (*comm_finalize)(NcclComm* comm) = nullptr;
  NcclResult (*comm_destroy)(NcclComm* comm) = nullptr;
  NcclResult (*comm_abort)(NcclComm* comm) = nullptr;
  NcclResult (*comm_get_async_error)(NcclComm* comm, NcclResult* error) = nullptr;
  NcclResult (*all_reduce)(const void* from, void* to, size_t count, NcclType type, NcclOperation operation,
                           NcclComm* comm, CudaStream* stream) = nullptr;
  NcclResult (*broadcast)(const void* from, void* to, size_t count, NcclType type, int root, NcclComm* comm,
                          CudaStream* stream) = nullptr;
  NcclResult (*send)(const void* from, size_t count, NcclType type, int peer, NcclComm* comm,
                     CudaStream* stream) = nullptr;
  NcclResult (*receive)(void* to, size_t count, NcclType type, int peer, NcclComm* comm, CudaStream* stream) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  const char* (*error_string)(NcclResult result) = nullptr;
  const char* (*last_error)(NcclComm* comm) = nullptr;  // of this process; may be empty

  cuda::CudaRuntime cuda;
};

// Loads both libraries, by name (as the dynamic linker finds them) or by path, and keeps them loaded until the process
// ends. Empty names mean libnccl.so.2, and libcudart.so.13 or else libcudart.so.12. kNotFound says which library or
// symbol is missing and what to do. Needs no GPU: a missing GPU shows when a communicator is created.
Result<NcclApi> load_nccl(const std::string& nccl = "", const std::string& cudart = "");

// The settings of a communicator over NCCL.
struct NcclSetup {
  NcclApi api;
  int device = 0;  // of this process, from 0
  // Elements pass through buffers of this many bytes, one on the host and two on the GPU. The same on all ranks; a
  // multiple of 64.
  size_t chunk_bytes = size_t{4} << 20;
};

// The GPU of the process with this local rank: its own if each process sees several, the only one if each sees one.
// kNotFound with a sentence if there is none.
Result<int> choose_device(const NcclApi& api, int local_rank);

// Loads both libraries and finds the GPU; errors are those of the two functions above.
Result<std::shared_ptr<const NcclSetup>> make_nccl_setup(const std::string& nccl, const std::string& cudart,
                                                         int local_rank);

}  // namespace lockstep::trainer::comm
