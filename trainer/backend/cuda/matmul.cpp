#include "trainer/backend/cuda/matmul.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/backend/cuda/error_code.h"
#include "trainer/core/tensor.h"
#include "trainer/cuda/mutation.h"

namespace lockstep::trainer::cuda {

namespace {

// Creates and sets up descriptors until one call fails.
class Planner {
 public:
  explicit Planner(const Blas& blas) : blas_(blas) {}

  void operator()(BlasStatus status) {
    if (status_ == BlasStatus::kSuccess) status_ = status;
  }
  template <typename Attribute, typename Value, typename Object>
  void set(BlasStatus (*setter)(Object*, Attribute, const void*, size_t), Object* object, Attribute attribute,
           Value value) {
    if (status_ == BlasStatus::kSuccess) status_ = setter(object, attribute, &value, sizeof value);
  }
  bool failed() const { return status_ != BlasStatus::kSuccess; }
  Error error(const ProductShape& shape) const {
    return fail(code_of(status_), fmt::format("cuBLASLt cannot plan the product of ({}, {}) and ({}, {}): {}", shape.m,
                                              shape.k, shape.k, shape.n, blas_.status_string(status_)));
  }

 private:
  const Blas& blas_;
  BlasStatus status_ = BlasStatus::kSuccess;
};

BlasOperation operation_of(As as) {
  return as == As::kIs ? BlasOperation::kNone : BlasOperation::kTranspose;
}

BlasCompute compute_of(const ProductShape& shape) {
  bool tf32 = shape.tf32;
  if (mutation() == Mutation::kTf32Unasked) tf32 = shape.operands == BlasType::kFloat32;
  if (mutation() == Mutation::kNoTf32) tf32 = false;
  return tf32 ? BlasCompute::kTf32 : BlasCompute::kFloat32;
}

}  // namespace

Matmul::Matmul(const BlasPlace& place, Owned<BlasProduct> product, Owned<BlasLayout> left, Owned<BlasLayout> right,
               Owned<BlasLayout> result, const BlasAlgorithm& algorithm)
    : place_(&place),
      product_(std::move(product)),
      left_(std::move(left)),
      right_(std::move(right)),
      result_(std::move(result)),
      algorithm_(algorithm) {}

// In column-major order the memory of a row-major matrix is its transpose. The transpose of A B is that of B times that
// of A. So B comes first, nothing is moved, and the bias of a row-major column is the library's of a row.
Result<Matmul> Matmul::plan(const BlasPlace& place, const ProductShape& shape) {
  const Blas& blas = place.blas;
  Planner planner(blas);

  BlasProduct* created = nullptr;
  planner(blas.product_create(&created, compute_of(shape), BlasType::kFloat32));
  Owned<BlasProduct> product(created, blas.product_destroy);
  if (planner.failed()) return planner.error(shape);
  planner.set(blas.product_set, created, BlasProductAttribute::kTransposeA, operation_of(shape.b_as));
  planner.set(blas.product_set, created, BlasProductAttribute::kTransposeB, operation_of(shape.a_as));
  if (shape.bias != nullptr && mutation() != Mutation::kNoBias) {
    planner.set(blas.product_set, created, BlasProductAttribute::kEpilogue, BlasEpilogue::kBias);
    planner.set(blas.product_set, created, BlasProductAttribute::kBiasPointer, shape.bias);
  }

  // The stored matrix has `rows` rows of `columns` elements.
  auto layout = [&](BlasType type, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    BlasLayout* made = nullptr;
    planner(
        blas.layout_create(&made, type, static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows), stride));
    return Owned<BlasLayout>(made, blas.layout_destroy);
  };
  auto stored = [&](As as, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    return as == As::kIs ? layout(shape.operands, rows, columns, stride)
                         : layout(shape.operands, columns, rows, stride);
  };
  Owned<BlasLayout> left = stored(shape.b_as, shape.k, shape.n, shape.b_stride);
  Owned<BlasLayout> right = stored(shape.a_as, shape.m, shape.k, shape.a_stride);
  Owned<BlasLayout> result = layout(shape.result, shape.m, shape.n, shape.c_stride);
  if (planner.failed()) return planner.error(shape);

  BlasPreference* preferred = nullptr;
  planner(blas.preference_create(&preferred));
  Owned<BlasPreference> preference(preferred, blas.preference_destroy);
  if (planner.failed()) return planner.error(shape);
  planner.set(blas.preference_set, preferred, BlasPreferenceAttribute::kMaxWorkspaceBytes,
              static_cast<std::uint64_t>(place.workspace_bytes));
  planner.set(blas.preference_set, preferred, BlasPreferenceAttribute::kReductions, kBlasReductionOfSums);
  for (const auto alignment : {BlasPreferenceAttribute::kMinAlignmentA, BlasPreferenceAttribute::kMinAlignmentB,
                               BlasPreferenceAttribute::kMinAlignmentC, BlasPreferenceAttribute::kMinAlignmentD}) {
    planner.set(blas.preference_set, preferred, alignment, static_cast<std::uint32_t>(core::kAlignment));
  }
  BlasHeuristic best{};
  int found = 0;
  planner(blas.get_heuristic(place.handle, created, left.get(), right.get(), result.get(), result.get(), preferred, 1,
                             &best, &found));
  if (!planner.failed() && found < 1) planner(BlasStatus::kNotSupported);
  if (!planner.failed()) planner(best.state);
  if (planner.failed()) return planner.error(shape);
  return Matmul(place, std::move(product), std::move(left), std::move(right), std::move(result), best.algorithm);
}

BlasStatus Matmul::run(const void* a, const void* b, bool adds, void* c, CudaStream* stream) const {
  const float alpha = 1, beta = adds ? 1 : 0;
  const size_t part = mutation() == Mutation::kLittleWorkspace ? 64 : 1;
  return place_->blas.matmul(place_->handle, product_.get(), &alpha, b, left_.get(), a, right_.get(), &beta, c,
                             result_.get(), c, result_.get(), &algorithm_, place_->workspace,
                             place_->workspace_bytes / part, stream);
}

}  // namespace lockstep::trainer::cuda
