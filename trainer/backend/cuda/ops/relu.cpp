#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/elementwise.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class ReluKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    return run([&]<typename E>() { return trainer::cuda::relu_forward(stream(), x<E>(), y<E>(), count()); });
  }
  Status backward(const RunContext&) override {
    if (!wants_dx()) return {};
    return run([&]<typename E>() {
      return trainer::cuda::relu_backward(stream(), y<E>(), dy<E>(), dx<E>(), count(), accumulate());
    });
  }
};

}  // namespace

Needs needs_of(const core::ops::Relu&, const Dimensions&) {
  return {.reads_output = true, .cheap = true};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::Relu&, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<ReluKernel>(std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
