#include <cmath>
#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class SoftmaxCrossEntropyKernel final : public Base {
 public:
  SoftmaxCrossEntropyKernel(const core::ops::SoftmaxCrossEntropy& op, Site site) : Base(std::move(site)), op_(op) {}
  Status forward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(check_indices(node(), indices(1), d_.rows, d_.in));
    for (size_t s = 0; s < d_.samples; ++s) y()[s] = 0;
    for (size_t r = 0; r < d_.rows; ++r) {
      const double* scores = x() + r * d_.in;
      double* p = kept(0) + r * d_.in;
      double largest = -HUGE_VAL, sum = 0;
      for (size_t i = 0; i < d_.in; ++i) largest = std::fmax(largest, scores[i]);
      for (size_t i = 0; i < d_.in; ++i) sum += p[i] = std::exp(scores[i] - largest);
      for (size_t i = 0; i < d_.in; ++i) p[i] /= sum;
      const double log_sum = std::log(sum) + largest;
      double nats = 0;
      for (size_t i = 0; i < d_.in; ++i) {
        if (target(r, i) > 0) nats += target(r, i) * (log_sum - scores[i]);
      }
      y()[r / d_.positions] += nats / static_cast<double>(d_.positions);
    }
    return {};
  }
  Status backward(const RunContext& context) override {
    LOCKSTEP_CHECK_OK(check_indices(node(), indices(1), d_.rows, d_.in));
    double scale = loss_scale(context) / static_cast<double>(d_.positions);
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t i = 0; i < d_.in; ++i) {
        give(0, r * d_.in + i, (kept(0)[r * d_.in + i] - target(r, i)) * scale);
      }
    }
    return {};
  }

 private:
  // The probability that the loss asks of class `i` of a row.
  double target(size_t row, size_t i) const {
    const double hit = i == static_cast<size_t>(indices(1)[row]) ? 1 - op_.smoothing : 0;
    return hit + op_.smoothing / static_cast<double>(d_.in);
  }

  core::ops::SoftmaxCrossEntropy op_;
};

}  // namespace

// Keeps the probabilities (R, V).
Needs needs_of(const core::ops::SoftmaxCrossEntropy&, const Dimensions& d) {
  return {.reads_inputs = true, .keeps = {d.rows * d.in}};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::SoftmaxCrossEntropy& op, Site site) {
  return std::make_unique<SoftmaxCrossEntropyKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
