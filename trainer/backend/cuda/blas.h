// cuBLASLt as a table of function pointers that is filled at run time, as trainer/cuda/runtime.h is for the runtime.
// Neither the library nor its headers are needed to build.
//
// Declares the binary interface of cublasLt.h of CUDA 12 and 13 as far as matrix products in float32 and bfloat16 need
// it. Matrices of the library are in column-major order; matmul.h has products of row-major ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "operator/base/result.h"
#include "trainer/cuda/types.h"

namespace lockstep::trainer::cuda {

enum class BlasStatus : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kInternalError = 14,
  kNotSupported = 15,  // no algorithm computes this
};

enum class BlasType : int { kFloat32 = 0, kBfloat16 = 14 };
// Sums are float32. kTf32: operands, which are float32, may be rounded to TF32; with kFloat32 they never are.
enum class BlasCompute : int { kFloat32 = 68, kTf32 = 77 };
enum class BlasOperation : std::int32_t { kNone = 0, kTranspose = 1 };
enum class BlasEpilogue : std::uint32_t { kDefault = 1, kBias = 4 };  // kBias: adds a vector to each column

// Of a product's descriptor; behind each the type of its value.
enum class BlasProductAttribute : int {
  kTransposeA = 3,   // BlasOperation
  kTransposeB = 4,   // BlasOperation
  kEpilogue = 7,     // BlasEpilogue
  kBiasPointer = 8,  // const void*, to as many numbers as the result has rows, of the result's type
};

// Of a preference.
enum class BlasPreferenceAttribute : int {
  kMaxWorkspaceBytes = 1,  // uint64_t
  kReductions = 3,         // uint32_t, a mask of those that a product whose k is split may use; all unless set
  kMinAlignmentA = 5,      // uint32_t, bytes; 256 unless set
  kMinAlignmentB = 6,
  kMinAlignmentC = 7,
  kMinAlignmentD = 8,
};

// Adds the parts of a split product up in the type of its sums. The others add them up in the type of the result.
inline constexpr std::uint32_t kBlasReductionOfSums = 2;

struct BlasHandle;      // opaque: cublasLtHandle_t is a pointer to it
struct BlasProduct;     // opaque: cublasLtMatmulDesc_t
struct BlasLayout;      // opaque: cublasLtMatrixLayout_t
struct BlasPreference;  // opaque: cublasLtMatmulPreference_t

struct BlasAlgorithm {
  std::uint64_t data[8];
};

struct BlasHeuristic {
  BlasAlgorithm algorithm;
  size_t workspace_bytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};

// Every pointer is set. The functions promise what NVIDIA's manual says of those of the same name (cublasLtMatmul is
// `matmul`).
struct Blas {
  size_t (*get_version)() = nullptr;  // 130401 is 13.4.1
  BlasStatus (*create)(BlasHandle** handle) = nullptr;
  BlasStatus (*destroy)(BlasHandle* handle) = nullptr;
  const char* (*status_string)(BlasStatus status) = nullptr;

  BlasStatus (*product_create)(BlasProduct** product, BlasCompute compute, BlasType scale) = nullptr;
  BlasStatus (*product_destroy)(BlasProduct* product) = nullptr;
  BlasStatus (*product_set)(BlasProduct* product, BlasProductAttribute attribute, const void* value,
                            size_t bytes) = nullptr;
  // `stride`: elements from one column to the next.
  BlasStatus (*layout_create)(BlasLayout** layout, BlasType type, std::uint64_t rows, std::uint64_t columns,
                              std::int64_t stride) = nullptr;
  BlasStatus (*layout_destroy)(BlasLayout* layout) = nullptr;
  BlasStatus (*preference_create)(BlasPreference** preference) = nullptr;
  BlasStatus (*preference_destroy)(BlasPreference* preference) = nullptr;
  BlasStatus (*preference_set)(BlasPreference* preference, BlasPreferenceAttribute attribute, const void* value,
                               size_t bytes) = nullptr;
  BlasStatus (*get_heuristic)(BlasHandle* handle, BlasProduct* product, BlasLayout* a, BlasLayout* b, BlasLayout* c,
                              BlasLayout* d, BlasPreference* preference, int wanted, BlasHeuristic* results,
                              int* found) = nullptr;
  // D = alpha op(A) op(B) + beta C, with the epilogue. alpha and beta: float, in memory of the host.
  BlasStatus (*matmul)(BlasHandle* handle, BlasProduct* product, const void* alpha, const void* a, BlasLayout* a_layout,
                       const void* b, BlasLayout* b_layout, const void* beta, const void* c, BlasLayout* c_layout,
                       void* d, BlasLayout* d_layout, const BlasAlgorithm* algorithm, void* workspace,
                       size_t workspace_bytes, CudaStream* stream) = nullptr;
};

// Opens the library, by name (as the dynamic linker finds it) or by path, and keeps it loaded until the process ends.
// An empty name means libcublasLt.so.13 or else libcublasLt.so.12. kNotFound says which library or symbol is missing
// and what to do. Needs no GPU.
Result<Blas> open_blas(const std::string& library = "");

}  // namespace lockstep::trainer::cuda
