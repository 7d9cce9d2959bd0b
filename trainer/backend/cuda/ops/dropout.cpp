#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/dropout.h"
#include "trainer/backend/cuda/kernels/elementwise.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class DropoutKernel final : public Base {
 public:
  DropoutKernel(const core::ops::Dropout& op, Site site)
      : Base(std::move(site)), rate_(op.rate), layer_(core::derive(0, node().name)) {}
  Status forward(const RunContext& context) override {
    if (context.mode == RunContext::Mode::kTrain) {
      return run([&]<typename E>() { return draw<E>(context, x<E>(), false, y<E>()); });
    }
    return run([&]<typename E>() { return trainer::cuda::give(stream(), x<E>(), y<E>(), count(), false); });
  }
  Status backward(const RunContext& context) override {
    if (!wants_dx()) return {};
    return run([&]<typename E>() { return draw<E>(context, dy<E>(), accumulate(), dx<E>()); });
  }

 private:
  template <typename E>
  CudaError draw(const RunContext& context, const E* from, bool add, E* to) const {
    const trainer::cuda::DropoutDraw draw{.step_key = dropout_step_key(context),
                                          .first_sample = static_cast<std::uint64_t>(context.first_sample),
                                          .layer = layer_,
                                          .threshold = dropout_threshold(rate_),
                                          .factor = static_cast<float>(1.0 / (1.0 - rate_))};
    return trainer::cuda::dropout(stream(), draw, from, to, samples(), count() / samples(), add);
  }

  const double rate_;
  const std::uint64_t layer_;
};

}  // namespace

Needs needs_of(const core::ops::Dropout&, const Dimensions&) {
  return {};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::Dropout& op, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<DropoutKernel>(op, std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
