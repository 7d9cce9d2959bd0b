#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/layer_norm.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class LayerNormKernel final : public Base {
 public:
  LayerNormKernel(const core::ops::LayerNorm& op, Site site)
      : Base(std::move(site)), epsilon_(static_cast<float>(op.epsilon)) {}
  Status forward(const RunContext&) override {
    return run([&]<typename E>() {
      return trainer::cuda::layer_norm_forward(stream(), x<E>(), parameter(0), parameter(1), kept(0), kept(1), y<E>(),
                                               rows(), size(d_.in), epsilon_);
    });
  }
  Status backward(const RunContext&) override {
    LOCKSTEP_CHECK_OK(run([&]<typename E>() {
      return trainer::cuda::layer_norm_parameters(stream(), x<E>(), kept(0), kept(1), dy<E>(), dparameter(0),
                                                  dparameter(1), rows(), size(d_.in), bindings().backward_scratch);
    }));
    if (!wants_dx()) return {};
    return run([&]<typename E>() {
      return trainer::cuda::layer_norm_backward(stream(), x<E>(), parameter(0), kept(0), kept(1), dy<E>(), dx<E>(),
                                                rows(), size(d_.in), accumulate());
    });
  }

 private:
  const float epsilon_;
};

}  // namespace

// Keeps the mean and the inverse deviation of each row.
Needs needs_of(const core::ops::LayerNorm&, const Dimensions& d) {
  const size_t scratch =
      trainer::cuda::layer_norm_scratch(static_cast<std::int64_t>(d.rows), static_cast<std::int64_t>(d.in));
  return {.reads_inputs = true, .keeps = {d.rows, d.rows}, .backward_scratch = floats_of(scratch), .cheap = true};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::LayerNorm& op, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<LayerNormKernel>(op, std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
