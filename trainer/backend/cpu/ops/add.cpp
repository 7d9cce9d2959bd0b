#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class AddKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_elements(
        [&](size_t begin, size_t end) { kernels_.add(x(0) + begin, x(1) + begin, end - begin, y() + begin); });
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < 2; ++i) {
      if (dx(i) == nullptr) continue;
      share_elements(
          [&](size_t begin, size_t end) { kernels_.give(dy() + begin, end - begin, accumulate(i), dx(i) + begin); });
    }
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Add&, const Dimensions&, const Team&) {
  return {.cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Add&, Site site) {
  return std::make_unique<AddKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
