// Kernels of ops that compute each element from one element of their input.
#pragma once

#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

// What the backward pass computes the slope from.
enum class SlopeFrom { kInput, kOutput };

// `kForward` and `kBackward` are members of RowKernels.
template <auto kForward, auto kBackward, SlopeFrom kFrom>
class ElementwiseKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share_elements([&](size_t begin, size_t end) { (kernels_.*kForward)(x() + begin, end - begin, y() + begin); });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    const float* from = kFrom == SlopeFrom::kInput ? x() : y();
    share_elements([&](size_t begin, size_t end) {
      (kernels_.*kBackward)(from + begin, dy() + begin, end - begin, accumulate(), dx() + begin);
    });
    return {};
  }
};

}  // namespace lockstep::trainer::backend::cpu
