// The CUDA backend: matrix products by cuBLASLt, the rest by own kernels (kernels/), float32, on one stream of one GPU.
// It has the ops of kernel.h; a graph with another one is refused at lower().
#pragma once

#include <memory>
#include <string>

#include "operator/base/result.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

struct CudaOptions {
  int local_rank = 0;    // takes the GPU of this number; modulo their number, if this process sees fewer
  std::string cudart;    // the CUDA runtime; empty: as cuda::load_cuda_runtime() finds it
  std::string cublaslt;  // empty: as cuda::open_blas() finds it
};

// The exit code of a process whose GPU breaks in Backend::update() (worker_contract.h: try again).
inline constexpr int kExitDeviceLost = 75;

// kNotFound, with one sentence: a library is missing, there is no driver or it is too old, this process sees no GPU, or
// the kernels are not compiled for it.
// kExhausted: the GPU has too little memory left, or does not answer.
Result<std::unique_ptr<core::Backend>> make_cuda_backend(const CudaOptions& options);

}  // namespace lockstep::trainer::backend
