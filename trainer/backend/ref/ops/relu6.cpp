#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

// The comparisons are false for a NaN, which passes: a loss that is not finite must not look finite.
class Relu6Kernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) y()[i] = x()[i] <= 0 ? 0 : x()[i] >= 6 ? 6 : x()[i];
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) give(0, i, y()[i] <= 0 || y()[i] >= 6 ? 0 : dy()[i]);
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Relu6&, const Dimensions&) {
  return {.reads_output = true, .cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Relu6&, Site site) {
  return std::make_unique<Relu6Kernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
