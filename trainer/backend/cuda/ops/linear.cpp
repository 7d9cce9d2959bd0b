#include <optional>
#include <utility>

#include "trainer/backend/cuda/error_code.h"
#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/bias.h"

namespace lockstep::trainer::backend::cuda {

namespace {

using trainer::cuda::As;
using trainer::cuda::BlasType;
using trainer::cuda::Matmul;

class LinearKernel final : public Base {
 public:
  explicit LinearKernel(Site site) : Base(site), blas_(site.blas) {}

  // The products that the memory of this node calls for.
  Status plan() {
    const std::int64_t in = size(d_.in), out = size(d_.out);
    LOCKSTEP_CHECK_OK(plan(output_, {.b_as = As::kTransposed,
                                     .m = rows(),
                                     .n = out,
                                     .k = in,
                                     .a_stride = in,
                                     .b_stride = in,
                                     .c_stride = out,
                                     .bias = has_bias() ? bindings().parameters[1] : nullptr,
                                     .operands = type(),
                                     .result = writes_float() ? BlasType::kFloat32 : type(),
                                     .tf32 = tf32()}));
    if (dparameter(0) == nullptr) return {};
    LOCKSTEP_CHECK_OK(plan(weight_, {.a_as = As::kTransposed,
                                     .m = out,
                                     .n = in,
                                     .k = rows(),
                                     .a_stride = out,
                                     .b_stride = in,
                                     .c_stride = in,
                                     .operands = type(),
                                     .tf32 = tf32()}));
    if (!wants_dx()) return {};
    return plan(input_, {.m = rows(),
                         .n = in,
                         .k = out,
                         .a_stride = out,
                         .b_stride = in,
                         .c_stride = in,
                         .operands = type(),
                         .result = type(),
                         .tf32 = tf32()});
  }
  Status forward(const RunContext&) override {
    return multiply(output_, bindings().inputs[0], bindings().parameters[0], false, bindings().output);
  }
  Status backward(const RunContext& context) override {
    const void* const dy = bindings().output_gradient;
    LOCKSTEP_CHECK_OK(multiply(weight_, dy, bindings().inputs[0], adds_to_dparameter(0, context), dparameter(0)));
    if (has_bias()) {
      LOCKSTEP_CHECK_OK(run([&]<typename E>() {
        return trainer::cuda::add_column_sums(stream(), static_cast<const E*>(dy), dparameter(1), rows(), size(d_.out),
                                              bindings().backward_scratch);
      }));
    }
    if (!wants_dx()) return {};
    return multiply(input_, dy, bindings().parameters[0], accumulate(), bindings().input_gradients[0]);
  }

 private:
  // Of activations, and of the copies of weight and bias. The gradient of the weight is float32.
  BlasType type() const { return rounds() ? BlasType::kBfloat16 : BlasType::kFloat32; }
  bool has_bias() const { return bindings().parameters.size() > 1; }
  Status plan(std::optional<Matmul>& product, const trainer::cuda::ProductShape& shape) {
    Result<Matmul> planned = Matmul::plan(blas_, shape);
    if (!planned) return planned.error().in(where());
    product.emplace(std::move(*planned));
    return {};
  }
  Status multiply(const std::optional<Matmul>& product, const void* a, const void* b, bool adds, void* c) const {
    const trainer::cuda::BlasStatus status = product->run(a, b, adds, c, stream());
    if (status == trainer::cuda::BlasStatus::kSuccess) return {};
    LOCKSTEP_CHECK_OK(queue_.health());  // earlier work may have failed
    return fail(trainer::cuda::code_of(status),
                where() + ": cuBLASLt could not multiply matrices: " + blas_.blas.status_string(status));
  }

  const trainer::cuda::BlasPlace& blas_;
  std::optional<Matmul> output_, weight_, input_;
};

}  // namespace

Needs needs_of(const core::ops::Linear&, const Dimensions& d) {
  const size_t scratch =
      trainer::cuda::column_sums_scratch(static_cast<std::int64_t>(d.rows), static_cast<std::int64_t>(d.out));
  return {.reads_inputs = true, .backward_scratch = floats_of(scratch), .overwrites = {0}};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::Linear&, Site site) {
  auto kernel = std::make_unique<LinearKernel>(std::move(site));
  LOCKSTEP_CHECK_OK(kernel->plan());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace lockstep::trainer::backend::cuda
