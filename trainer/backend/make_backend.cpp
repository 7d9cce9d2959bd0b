#include "trainer/backend/make_backend.h"

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/ref/ref_backend.h"

namespace lockstep::trainer::backend {

namespace {

// LOCKSTEP_CUDA_KERNELS: the program is linked with the kernels, which nvcc compiles, or an emulation of them.
Result<std::unique_ptr<core::Backend>> cuda_or_why_not([[maybe_unused]] const CudaOptions& options) {
#ifdef LOCKSTEP_CUDA_KERNELS
  return make_cuda_backend(options);
#else
  return fail(ErrorCode::kNotFound, "this program was built without CUDA kernels; -DLOCKSTEP_CUDA=ON builds them");
#endif
}

}  // namespace

const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names = {"cpu", "cuda", "ref"};
  return names;
}

Result<std::unique_ptr<core::Backend>> make_backend(const std::string& name, int threads, const CudaOptions& cuda) {
  if (name == "cpu") return make_cpu_backend(threads);
  if (name == "cuda") return cuda_or_why_not(cuda);
  if (name == "ref") return make_ref_backend();
  return fail(ErrorCode::kInvalid, "there is no backend '" + name + "'; choose cpu, cuda or ref");
}

}  // namespace lockstep::trainer::backend
