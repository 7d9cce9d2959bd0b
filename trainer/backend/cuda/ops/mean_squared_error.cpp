#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/losses.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class MeanSquaredErrorKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    return run([&]<typename E>() {
      return trainer::cuda::mean_squared_error_forward(stream(), x<E>(0), x<float>(1), y<float>(), samples(), each());
    });
  }
  Status backward(const RunContext& context) override {
    if (!wants_dx()) return {};
    const auto scale = static_cast<float>(2 * loss_scale(context) / static_cast<double>(each()));
    return run([&]<typename E>() {
      return trainer::cuda::mean_squared_error_backward(stream(), x<E>(0), x<float>(1), scale, dx<E>(), count(),
                                                        accumulate());
    });
  }

 private:
  std::int64_t each() const { return count() / samples(); }
};

}  // namespace

Needs needs_of(const core::ops::MeanSquaredError&, const Dimensions&) {
  return {.reads_inputs = true};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::MeanSquaredError&, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<MeanSquaredErrorKernel>(std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
