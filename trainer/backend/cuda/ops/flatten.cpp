#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/elementwise.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class FlattenKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    return run([&]<typename E>() { return trainer::cuda::give(stream(), x<E>(), y<E>(), count(), false); });
  }
  Status backward(const RunContext&) override {
    if (!wants_dx()) return {};
    return run([&]<typename E>() { return trainer::cuda::give(stream(), dy<E>(), dx<E>(), count(), accumulate()); });
  }
};

}  // namespace

Needs needs_of(const core::ops::Flatten&, const Dimensions&) {
  return {};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::Flatten&, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<FlattenKernel>(std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
