#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class LinearKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t o = 0; o < d_.out; ++o) {
        double sum = bindings().parameters.size() > 1 ? parameter(1)[o] : 0;
        for (size_t i = 0; i < d_.in; ++i) sum += x()[r * d_.in + i] * parameter(0)[o * d_.in + i];
        y()[r * d_.out + o] = sum;
      }
    }
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t r = 0; r < d_.rows; ++r) {
      for (size_t i = 0; i < d_.in; ++i) {
        double sum = 0;
        for (size_t o = 0; o < d_.out; ++o) sum += dy()[r * d_.out + o] * parameter(0)[o * d_.in + i];
        give(0, r * d_.in + i, sum);
      }
      for (size_t o = 0; o < d_.out; ++o) {
        double g = dy()[r * d_.out + o];
        for (size_t i = 0; i < d_.in; ++i) dparameter(0)[o * d_.in + i] += g * x()[r * d_.in + i];
        if (bindings().parameters.size() > 1) dparameter(1)[o] += g;
      }
    }
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Linear&, const Dimensions&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Linear&, Site site) {
  return std::make_unique<LinearKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
