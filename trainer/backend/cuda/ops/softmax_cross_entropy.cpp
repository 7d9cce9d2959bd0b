#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/losses.h"

namespace lockstep::trainer::backend::cuda {

namespace {

trainer::cuda::ClassifierShape shape_of(const Dimensions& d) {
  return {.samples = static_cast<std::int64_t>(d.samples),
          .positions = static_cast<std::int64_t>(d.positions),
          .classes = static_cast<std::int64_t>(d.in)};
}

class SoftmaxCrossEntropyKernel final : public Base {
 public:
  SoftmaxCrossEntropyKernel(const core::ops::SoftmaxCrossEntropy& op, Site site)
      : Base(std::move(site)), shape_(shape_of(d_)), smoothing_(static_cast<float>(op.smoothing)) {}
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(1, shape_.classes));
    return launched(reads_float() ? forward<float>() : forward<Bfloat16>());
  }
  Status backward(const RunContext& context) override {
    if (!wants_dx()) return {};
    const auto scale = static_cast<float>(loss_scale(context) / static_cast<double>(d_.positions));
    return run([&]<typename E>() {
      return trainer::cuda::softmax_cross_entropy_backward(stream(), shape_, kept(0), indices(1), smoothing_, scale,
                                                           dx<E>(), accumulate());
    });
  }

 private:
  // `E`: of the scores.
  template <typename E>
  CudaError forward() const {
    return trainer::cuda::softmax_cross_entropy_forward(stream(), shape_, x<E>(), indices(1), smoothing_, kept(0),
                                                        y<float>(), bindings().forward_scratch);
  }

  const trainer::cuda::ClassifierShape shape_;
  const float smoothing_;
};

}  // namespace

// Keeps the probabilities (R, V).
Needs needs_of(const core::ops::SoftmaxCrossEntropy&, const Dimensions& d) {
  return {.reads_inputs = true,
          .keeps = {d.rows * d.in},
          .forward_scratch = floats_of(trainer::cuda::softmax_cross_entropy_scratch(shape_of(d)))};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::SoftmaxCrossEntropy& op, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<SoftmaxCrossEntropyKernel>(op, std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
