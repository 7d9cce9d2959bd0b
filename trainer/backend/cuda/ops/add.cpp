#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/elementwise.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class AddKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    return launched(trainer::cuda::add(stream(), x(0), x(1), y(), count()));
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < 2; ++i) {
      if (dx(i) == nullptr) continue;
      LOCKSTEP_CHECK_OK(launched(trainer::cuda::give(stream(), dy(), dx(i), count(), accumulate(i))));
    }
    return {};
  }
};

}  // namespace

Needs needs_of(const core::ops::Add&, const Dimensions&) {
  return {};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::Add&, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<AddKernel>(std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
