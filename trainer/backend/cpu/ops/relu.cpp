#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class ReluKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_elements([&](size_t begin, size_t end) { loops_.relu(x() + begin, end - begin, y() + begin); });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    share_elements([&](size_t begin, size_t end) {
      loops_.relu_backward(y() + begin, dy() + begin, end - begin, accumulate(), dx() + begin);
    });
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Relu&, const Dimensions&, size_t) {
  return {.reads_output = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Relu&, Site site) {
  return std::make_unique<ReluKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
