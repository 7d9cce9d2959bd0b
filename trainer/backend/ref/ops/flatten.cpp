#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class FlattenKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) y()[i] = x()[i];
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) give(0, i, dy()[i]);
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Flatten&, const Dimensions&) {
  return {};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Flatten&, Site site) {
  return std::make_unique<FlattenKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
