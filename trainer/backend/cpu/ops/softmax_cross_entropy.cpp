#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class SoftmaxCrossEntropyKernel final : public Base {
 public:
  SoftmaxCrossEntropyKernel(const core::ops::SoftmaxCrossEntropy& op, Site site)
      : Base(std::move(site)), smoothing_(static_cast<float>(op.smoothing)) {}
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node(), indices(1), d_.rows, d_.in));
    share(d_.samples, 1, [&](size_t begin, size_t end) {
      for (size_t s = begin; s < end; ++s) {
        size_t row = s * d_.positions;
        double nats = kernels_.softmax_cross_entropy(x() + row * d_.in, indices(1) + row, d_.positions, d_.in,
                                                     smoothing_, kept(0) + row * d_.in);
        y()[s] = static_cast<float>(nats / static_cast<double>(d_.positions));
      }
    });
    return {};
  }
  Status backward(const RunContext& context) override {
    LOCKSTEP_CHECK_OK(check_indices(node(), indices(1), d_.rows, d_.in));
    auto scale = static_cast<float>(loss_scale(context) / static_cast<double>(d_.positions));
    if (dx() == nullptr) return {};
    share_rows([&](size_t begin, size_t end) {
      kernels_.softmax_cross_entropy_backward(kept(0) + begin * d_.in, indices(1) + begin, end - begin, d_.in,
                                              smoothing_, scale, accumulate(), dx() + begin * d_.in);
    });
    return {};
  }

 private:
  float smoothing_;
};

}  // namespace

// Keeps the probabilities (R, V).
Needs needs_of(const core::ops::SoftmaxCrossEntropy&, const Dimensions& d, const Team&) {
  return {.reads_inputs = true, .keeps = {d.rows * d.in}};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::SoftmaxCrossEntropy& op, Site site) {
  return std::make_unique<SoftmaxCrossEntropyKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
