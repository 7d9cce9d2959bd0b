// What the contract tests of the CUDA backend run on. Each program that has them is linked with one implementation:
// fakes_under_test.cpp, or tests/gpu/gpu_under_test.cpp for NVIDIA's libraries and a GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/backend/cuda/cuda_backend.h"

namespace lockstep::trainer::testing {

// Where the libraries are.
backend::CudaOptions libraries(backend::Precision precision = backend::Precision::kFloat32);

// How often a test repeats work whose results must be bitwise identical. On the emulator each run has its own order of
// threads; run 0 has the order of tests that repeat nothing.
int runs();
void begin_run(int run);

// By how much a sum of so many products in float32 may differ from the exact one, if products and sum are near 1.
double sum_tolerance(std::int64_t terms);

inline std::unique_ptr<core::Backend> gpu() {
  return backend::make_cuda_backend(libraries()).value();
}

inline std::unique_ptr<core::Backend> gpu_in_tf32() {
  return backend::make_cuda_backend(libraries(backend::Precision::kTf32)).value();
}

inline std::unique_ptr<core::Backend> gpu_in_bfloat16() {
  return backend::make_cuda_backend(libraries(backend::Precision::kBfloat16)).value();
}

}  // namespace lockstep::trainer::testing
