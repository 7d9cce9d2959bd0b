#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/elementwise.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class Relu6Kernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    return launched(trainer::cuda::relu6_forward(stream(), x(), y(), count()));
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    return launched(trainer::cuda::relu6_backward(stream(), y(), dy(), dx(), count(), accumulate()));
  }
};

}  // namespace

Needs needs_of(const core::ops::Relu6&, const Dimensions&) {
  return {.reads_output = true};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::Relu6&, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<Relu6Kernel>(std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
