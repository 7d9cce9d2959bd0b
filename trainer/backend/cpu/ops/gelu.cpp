#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class GeluKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_elements([&](size_t begin, size_t end) { loops_.gelu(x() + begin, end - begin, y() + begin); });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    share_elements([&](size_t begin, size_t end) {
      loops_.gelu_backward(x() + begin, dy() + begin, end - begin, accumulate(), dx() + begin);
    });
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Gelu&, const Dimensions&, size_t) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Gelu&, Site site) {
  return std::make_unique<GeluKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
