#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class Relu6Kernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_elements([&](size_t begin, size_t end) { loops_.relu6(x() + begin, end - begin, y() + begin); });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    share_elements([&](size_t begin, size_t end) {
      loops_.relu6_backward(y() + begin, dy() + begin, end - begin, accumulate(), dx() + begin);
    });
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Relu6&, const Dimensions&, size_t) {
  return {.reads_output = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Relu6&, Site site) {
  return std::make_unique<Relu6Kernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
