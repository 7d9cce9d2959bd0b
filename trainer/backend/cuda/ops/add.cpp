#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/elementwise.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class AddKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    return run([&]<typename E>() { return trainer::cuda::add(stream(), x<E>(0), x<E>(1), y<E>(), count()); });
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < 2; ++i) {
      if (!wants_dx(i)) continue;
      LOCKSTEP_CHECK_OK(
          run([&]<typename E>() { return trainer::cuda::give(stream(), dy<E>(), dx<E>(i), count(), accumulate(i)); }));
    }
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Add&, const Dimensions&) {
  return {.cheap = true};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::Add&, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<AddKernel>(std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
