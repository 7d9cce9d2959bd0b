// The backends by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

// "cpu", "cuda" and "ref".
const std::vector<std::string>& backend_names();

// `threads` compute one micro-batch; `ref` always uses one, and `cuda` a GPU, which `cuda` chooses. kInvalid: no
// backend of that name, or the environment (OMP_THREAD_LIMIT) does not allow that many threads. kNotFound: `cuda` has
// no GPU to use, or this program was built without its kernels; the others as of make_cuda_backend().
Result<std::unique_ptr<core::Backend>> make_backend(const std::string& name, int threads, const CudaOptions& cuda = {});

}  // namespace lockstep::trainer::backend
