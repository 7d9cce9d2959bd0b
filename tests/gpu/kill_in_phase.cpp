// Ends the trainer by SIGKILL within a phase of a step, on a GPU as on the fakes. LOCKSTEP_KILL_IN=PHASE:N means the
// Nth time (from 1) that it comes to the phase.
//
//   backward    it has enqueued the backward pass of a batch norm in float32
//   all-reduce  it has handed a sum of at least kLargeSum elements to NCCL
//   optimizer   it has enqueued an AdamW update of one tensor
//   checkpoint  all of a checkpoint is written but its manifest
//
// The linker puts these functions in front of the trainer's own (--wrap in CMakeLists.txt, which has their symbols). So
// the work of the phase is on its way to the GPU when the process ends.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "trainer/backend/cuda/kernels/batch_norm.h"
#include "trainer/backend/cuda/kernels/optimizer.h"
#include "trainer/comm/nccl_api.h"

namespace lockstep::trainer {

using comm::NcclSetup;
using cuda::CudaError;
using cuda::CudaStream;

using Site = cuda::BatchNormSite<float>;
using Gradients = cuda::BatchNormGradients<float>;

CudaError real_backward(CudaStream*, const Site&, const float*, const float*, const Gradients&,
                        void*) asm("__real_" BATCH_NORM_BACKWARD);
CudaError killing_backward(CudaStream*, const Site&, const float*, const float*, const Gradients&,
                           void*) asm("__wrap_" BATCH_NORM_BACKWARD);
CudaError real_update(CudaStream*, const cuda::AdamWScalars&, std::int64_t, float*, const float*, float*, float*,
                      std::int64_t, std::uint64_t*) asm("__real_" ADAMW_UPDATE);
CudaError killing_update(CudaStream*, const cuda::AdamWScalars&, std::int64_t, float*, const float*, float*, float*,
                         std::int64_t, std::uint64_t*) asm("__wrap_" ADAMW_UPDATE);
Result<std::shared_ptr<const NcclSetup>> real_setup(const std::string&, const std::string&,
                                                    int) asm("__real_" MAKE_NCCL_SETUP);
Result<std::shared_ptr<const NcclSetup>> killing_setup(const std::string&, const std::string&,
                                                       int) asm("__wrap_" MAKE_NCCL_SETUP);

static_assert(std::is_same_v<decltype(&real_backward), decltype(&cuda::batch_norm_backward<float>)>);
static_assert(std::is_same_v<decltype(&real_update), decltype(&cuda::adamw_update)>);
static_assert(std::is_same_v<decltype(&real_setup), decltype(&comm::make_nccl_setup)>);

namespace {

constexpr size_t kLargeSum = 1000;

void come_to(std::string_view phase) {
  static const char* const wish = std::getenv("LOCKSTEP_KILL_IN");
  static const std::string_view wanted = wish == nullptr ? "" : wish;
  const size_t colon = wanted.find(':');
  if (colon == wanted.npos || wanted.substr(0, colon) != phase) return;
  static std::atomic<long> left{std::atol(wish + colon + 1)};
  if (--left != 0) return;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::fprintf(stderr, "kill_in_phase: process %d ends in %s at %lld ns\n", ::getpid(), std::string(phase).c_str(),
               now.tv_sec * 1'000'000'000LL + now.tv_nsec);
  std::fflush(stderr);
  ::kill(::getpid(), SIGKILL);
  ::pause();
}

decltype(comm::NcclApi::all_reduce) real_all_reduce = nullptr;

comm::NcclResult killing_all_reduce(const void* from, void* to, size_t count, comm::NcclType type,
                                    comm::NcclOperation operation, comm::NcclComm* comm, CudaStream* stream) {
  const comm::NcclResult result = real_all_reduce(from, to, count, type, operation, comm, stream);
  if (count >= kLargeSum) come_to("all-reduce");
  return result;
}

}  // namespace

CudaError killing_backward(CudaStream* stream, const Site& site, const float* y, const float* dy,
                           const Gradients& gradients, void* scratch) {
  const CudaError error = real_backward(stream, site, y, dy, gradients, scratch);
  come_to("backward");
  return error;
}

CudaError killing_update(CudaStream* stream, const cuda::AdamWScalars& scalars, std::int64_t segment, float* parameters,
                         const float* gradients, float* first_moment, float* second_moment, std::int64_t count,
                         std::uint64_t* digest) {
  const CudaError error =
      real_update(stream, scalars, segment, parameters, gradients, first_moment, second_moment, count, digest);
  come_to("optimizer");
  return error;
}

Result<std::shared_ptr<const NcclSetup>> killing_setup(const std::string& nccl, const std::string& cudart,
                                                       int local_rank) {
  auto made = real_setup(nccl, cudart, local_rank);
  if (!made) return made;
  auto setup = std::make_shared<NcclSetup>(**made);
  real_all_reduce = setup->api.all_reduce;
  setup->api.all_reduce = killing_all_reduce;
  return std::shared_ptr<const NcclSetup>(std::move(setup));
}

extern "C" {

int __real_rename(const char* from, const char* to);

int __wrap_rename(const char* from, const char* to) {
  if (std::strstr(to, "manifest.json") != nullptr) come_to("checkpoint");
  return __real_rename(from, to);
}
}

}  // namespace lockstep::trainer
