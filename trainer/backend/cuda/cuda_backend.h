// The CUDA backend: matrix products by cuBLASLt, convolutions by cuDNN, the rest by own kernels (kernels/), on one
// stream of one GPU.
//
// cuDNN takes some hundred MB of disk, and of the GPU's memory once it has started. So it may be missing, and it starts
// with the first graph that needs it. It is loaded at once, because numerics() names its version from the beginning.
#pragma once

#include <memory>
#include <string>

#include "operator/base/result.h"
#include "trainer/backend/cuda/precision.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

struct CudaOptions {
  int local_rank = 0;  // takes the GPU of this number; modulo their number, if this process sees fewer
  Precision precision = Precision::kFloat32;
  std::string cudart;    // the CUDA runtime; empty: as cuda::load_cuda_runtime() finds it
  std::string cublaslt;  // empty: as cuda::open_blas() finds it
  std::string cudnn;     // empty: as cuda::open_dnn() finds it
};

// The exit code of a process whose GPU breaks in Backend::update() (worker_contract.h: try again).
inline constexpr int kExitDeviceLost = 75;

// kNotFound, with one sentence: a library is missing, the driver is missing or too old, this process sees no GPU, or
// the kernels are not compiled for it. kExhausted: the GPU has too little memory left, or does not answer. Without
// cuDNN lower() refuses a graph with a convolution, unless each channel is one by itself: kNotFound, with the layer's
// name and why.
Result<std::unique_ptr<core::Backend>> make_cuda_backend(const CudaOptions& options);

}  // namespace lockstep::trainer::backend
