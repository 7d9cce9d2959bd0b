#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/batch_norm.h"
#include "trainer/cuda/mutation.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class BatchNormKernel final : public Base {
 public:
  BatchNormKernel(const core::ops::BatchNorm& op, Site site) : Base(std::move(site)), epsilon_(op.epsilon) {}
  Status forward(const RunContext& context) override {
    if (context.mode == RunContext::Mode::kTrain) {
      const auto staged = [&](size_t i) { return bindings().staged_statistics[swaps() ? 1 - i : i]; };
      return run([&]<typename E>() {
        return trainer::cuda::batch_norm_train(stream(), x<E>(), parameter(0), parameter(1), staged(0), staged(1),
                                               kept(0), kept(1), y<E>(), rows(), size(d_.in), epsilon_,
                                               bindings().forward_scratch);
      });
    }
    return run([&]<typename E>() {
      return trainer::cuda::batch_norm_evaluate(stream(), x<E>(), parameter(0), parameter(1), bindings().statistics[0],
                                                bindings().statistics[1], kept(0), kept(1), y<E>(), rows(), size(d_.in),
                                                epsilon_);
    });
  }
  Status backward(const RunContext&) override {
    return run([&]<typename E>() {
      return trainer::cuda::batch_norm_backward(stream(), x<E>(), parameter(0), kept(0), kept(1), dy<E>(), dx<E>(),
                                                dparameter(0), dparameter(1), rows(), size(d_.in), accumulate(),
                                                bindings().backward_scratch);
    });
  }

 private:
  static bool swaps() { return trainer::cuda::mutation() == trainer::cuda::Mutation::kSwappedStatistics; }

  const double epsilon_;
};

}  // namespace

// Keeps the mean and the inverse deviation of each feature.
Needs needs_of(const core::ops::BatchNorm&, const Dimensions& d) {
  const size_t scratch =
      floats_of(trainer::cuda::batch_norm_scratch(static_cast<std::int64_t>(d.rows), static_cast<std::int64_t>(d.in)));
  return {.reads_inputs = true, .keeps = {d.in, d.in}, .forward_scratch = scratch, .backward_scratch = scratch};
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::BatchNorm& op, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<BatchNormKernel>(op, std::move(site)));
}

}  // namespace lockstep::trainer::backend::cuda
