#include <cmath>
#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

// 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3).
class GeluKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) y()[i] = 0.5 * x()[i] * (1 + std::tanh(inner(x()[i])));
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) {
      double v = x()[i];
      double t = std::tanh(inner(v));
      double slope = kRoot * (1 + 3 * kCubic * v * v);
      give(0, i, dy()[i] * (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * slope));
    }
    return {};
  }

 private:
  static constexpr double kRoot = 0.79788456080286535588;
  static constexpr double kCubic = 0.044715;
  static double inner(double v) { return kRoot * (v + kCubic * v * v * v); }
};

}  // namespace

Needs needs_of(const core::ops::Gelu&, const Dimensions&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Gelu&, Site site) {
  return std::make_unique<GeluKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
