// The CUDA backend on the fakes of its libraries.
#pragma once

#include <memory>

#include "trainer/backend/cuda/cuda_backend.h"

namespace lockstep::trainer::testing {

inline backend::CudaOptions on_fake(backend::Precision precision = backend::Precision::kFloat32) {
  return {.precision = precision,
          .cudart = FAKE_CUDA_LIBRARY,
          .cublaslt = FAKE_CUBLASLT_LIBRARY,
          .cudnn = FAKE_CUDNN_LIBRARY};
}

// `number`: which of its GPUs.
inline std::unique_ptr<core::Backend> fake_gpu(int number = 0) {
  backend::CudaOptions options = on_fake();
  options.local_rank = number;
  return backend::make_cuda_backend(options).value();
}

inline std::unique_ptr<core::Backend> fake_gpu_in_tf32() {
  return backend::make_cuda_backend(on_fake(backend::Precision::kTf32)).value();
}

inline std::unique_ptr<core::Backend> fake_gpu_in_bfloat16() {
  return backend::make_cuda_backend(on_fake(backend::Precision::kBfloat16)).value();
}

}  // namespace lockstep::trainer::testing
