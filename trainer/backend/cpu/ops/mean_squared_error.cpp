#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class MeanSquaredErrorKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    size_t each = elements() / d_.samples;
    for (size_t s = 0; s < d_.samples; ++s) {
      double sum = kernels_.squared_error(x(0) + s * each, x(1) + s * each, each);
      y()[s] = static_cast<float>(sum / static_cast<double>(each));
    }
    return {};
  }
  Status backward(const RunContext& context) override {
    if (dx() == nullptr) return {};
    double each = static_cast<double>(elements()) / static_cast<double>(d_.samples);
    auto scale = static_cast<float>(2 * loss_scale(context) / each);
    share_elements([&](size_t begin, size_t end) {
      kernels_.squared_error_backward(x(0) + begin, x(1) + begin, end - begin, scale, accumulate(), dx() + begin);
    });
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::MeanSquaredError&, const Dimensions&, const Team&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::MeanSquaredError&, Site site) {
  return std::make_unique<MeanSquaredErrorKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
