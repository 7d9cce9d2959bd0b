#include "tests/trainer/backend/cuda/plans/real_cudnn.h"

#include <filesystem>

#include "trainer/backend/cuda/blas.h"

namespace lockstep::trainer::testing {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::string cudnn_of(const std::string& libraries) {
  return libraries + "/libcudnn.so.9";
}

}  // namespace

Result<cuda::Dnn> open_real_dnn(const std::string& libraries) {
  LOCKSTEP_CHECK_OK(cuda::open_blas(libraries + "/libcublasLt.so.13"));
  return cuda::open_dnn(cudnn_of(libraries));
}

std::string why_no_cudnn(const std::string& libraries) {
  if (kSanitized) return "a sanitizer sees nothing in NVIDIA's library, and takes its memory for its own";
  if (std::filesystem::exists(cudnn_of(libraries))) return "";
  return "there is no " + cudnn_of(libraries) + ": `scripts/cuda-toolkit.sh --cudnn` installs it (1.4 GB)";
}

}  // namespace lockstep::trainer::testing
