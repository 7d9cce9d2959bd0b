#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class FlattenKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_elements([&](size_t begin, size_t end) { kernels_.give(x() + begin, end - begin, false, y() + begin); });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    share_elements(
        [&](size_t begin, size_t end) { kernels_.give(dy() + begin, end - begin, accumulate(), dx() + begin); });
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Flatten&, const Dimensions&, const Team&) {
  return {};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Flatten&, Site site) {
  return std::make_unique<FlattenKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
