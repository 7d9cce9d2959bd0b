// Products of row-major matrices by cuBLASLt, in float32, TF32 or bfloat16, planned once for their sizes.
#pragma once

#include <cstdint>
#include <memory>

#include "operator/base/result.h"
#include "trainer/backend/cuda/blas.h"

namespace lockstep::trainer::cuda {

// The library, and memory of the device that it may use for one product at a time on one stream.
struct BlasPlace {
  const Blas& blas;
  BlasHandle* handle = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

enum class As : std::uint8_t { kIs, kTransposed };

// C (m, n) = A (m, k) B (k, n). kTransposed reads a matrix that is stored as (k, m) or (n, k). A stride is the number
// of elements from one stored row to the next. `bias` (n), memory of the device, is added to each row; null: none.
// `operands` is the type of A and B, `result` that of C and of the bias; sums are of float32 and round once. `tf32`,
// for operands of float32: the library may round A and B to TF32.
struct ProductShape {
  As a_as = As::kIs, b_as = As::kIs;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  const void* bias = nullptr;
  BlasType operands = BlasType::kFloat32, result = BlasType::kFloat32;
  bool tf32 = false;
};

// One thread.
class Matmul {
 public:
  // `place` must outlive the product. kInternal: the library has no algorithm for it.
  // kExhausted: the library lacks memory.
  static Result<Matmul> plan(const BlasPlace& place, const ProductShape& shape);

  // Enqueues C = A B, or C += A B if `adds`. Addresses are of the device and multiples of kAlignment. Never allocates
  // and never waits.
  BlasStatus run(const void* a, const void* b, bool adds, void* c, CudaStream* stream) const;

 private:
  template <typename Handle>
  using Owned = std::unique_ptr<Handle, BlasStatus (*)(Handle*)>;

  Matmul(const BlasPlace& place, Owned<BlasProduct> product, Owned<BlasLayout> left, Owned<BlasLayout> right,
         Owned<BlasLayout> result, const BlasAlgorithm& algorithm);

  const BlasPlace* place_;
  Owned<BlasProduct> product_;
  Owned<BlasLayout> left_, right_, result_;  // as the library sees them: left is B
  BlasAlgorithm algorithm_;
};

}  // namespace lockstep::trainer::cuda
