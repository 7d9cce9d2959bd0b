#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class AddKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) y()[i] = x(0)[i] + x(1)[i];
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) {
      give(0, i, dy()[i]);
      give(1, i, dy()[i]);
    }
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Add&, const Dimensions&) {
  return {.cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Add&, Site site) {
  return std::make_unique<AddKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
