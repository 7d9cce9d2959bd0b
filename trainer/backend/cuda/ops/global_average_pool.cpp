#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/global_average_pool.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class GlobalAveragePoolKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    return run([&]<typename E>() {
      return trainer::cuda::global_average_pool_forward(stream(), x<E>(), y<E>(), samples(), pixels(), size(d_.in));
    });
  }
  Status backward(const RunContext&) override {
    if (!wants_dx()) return {};
    return run([&]<typename E>() {
      return trainer::cuda::global_average_pool_backward(stream(), dy<E>(), dx<E>(), samples(), pixels(), size(d_.in),
                                                         accumulate());
    });
  }

 private:
  std::int64_t pixels() const { return size(d_.positions); }
};

}  // namespace

Needs needs_of(const core::ops::GlobalAveragePool&, const Dimensions&) {
  return {};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::GlobalAveragePool&, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<GlobalAveragePoolKernel>(std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
