#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

// The comparisons are false for a NaN, which passes: a loss that is not finite must not look finite.
class ReluKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) y()[i] = x()[i] <= 0 ? 0 : x()[i];
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) give(0, i, y()[i] <= 0 ? 0 : dy()[i]);
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Relu&, const Dimensions&) {
  return {.reads_output = true, .cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Relu&, Site site) {
  return std::make_unique<ReluKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
