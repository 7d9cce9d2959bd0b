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
    if (context.mode == RunContext::Mode::kTrain) return run(context, x(), false, y());
    return launched(trainer::cuda::give(stream(), x(), y(), count(), false));
  }
  Status backward(const RunContext& context) override {
    if (dx() == nullptr) return {};
    return run(context, dy(), accumulate(), dx());
  }

 private:
  Status run(const RunContext& context, const float* from, bool add, float* to) const {
    const trainer::cuda::DropoutDraw draw{.step_key = dropout_step_key(context),
                                          .first_sample = static_cast<std::uint64_t>(context.first_sample),
                                          .layer = layer_,
                                          .threshold = dropout_threshold(rate_),
                                          .factor = static_cast<float>(1.0 / (1.0 - rate_))};
    return launched(trainer::cuda::dropout(stream(), draw, from, to, samples(), count() / samples(), add));
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
