#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class MeanSquaredErrorKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    size_t each = elements() / d_.samples;
    for (size_t s = 0; s < d_.samples; ++s) {
      y()[s] = 0;
      for (size_t i = s * each; i < (s + 1) * each; ++i) {
        y()[s] += (x(0)[i] - x(1)[i]) * (x(0)[i] - x(1)[i]) / static_cast<double>(each);
      }
    }
    return {};
  }
  Status backward(const RunContext& context) override {
    double scale = 2 * loss_scale(context) * static_cast<double>(d_.samples) / static_cast<double>(elements());
    for (size_t i = 0; i < elements(); ++i) give(0, i, scale * (x(0)[i] - x(1)[i]));
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::MeanSquaredError&, const Dimensions&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::MeanSquaredError&, Site site) {
  return std::make_unique<MeanSquaredErrorKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
