#include <utility>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/cuda/kernels/batch_norm.h"
#include "trainer/cuda/mutation.h"

namespace lockstep::trainer::backend::cuda {

namespace {

class NormBlockKernel final : public Base {
 public:
  NormBlockKernel(const NormBlock& block, Site site) : Base(std::move(site)), block_(block) {}
  Status forward(const RunContext& context) override {
    if (context.mode == RunContext::Mode::kTrain) {
      const auto staged = [&](size_t i) { return bindings().staged_statistics[swaps() ? 1 - i : i]; };
      return run([&]<typename E>() {
        return trainer::cuda::batch_norm_train(stream(), here<E>(), staged(0), staged(1), y<E>(), block_.norm.epsilon,
                                               bindings().forward_scratch);
      });
    }
    return run([&]<typename E>() {
      return trainer::cuda::batch_norm_evaluate(stream(), here<E>(), bindings().statistics[0], bindings().statistics[1],
                                                y<E>(), block_.norm.epsilon);
    });
  }
  Status recompute(const RunContext&) override {
    return run([&]<typename E>() { return trainer::cuda::batch_norm_recompute(stream(), here<E>(), y<E>()); });
  }
  Status backward(const RunContext&) override {
    return run([&]<typename E>() {
      const trainer::cuda::BatchNormGradients<E> gradients{.dx = dx<E>(),
                                                           .other = block_.adds ? dx<E>(1) : nullptr,
                                                           .adds_to_dx = accumulate(),
                                                           .adds_to_other = block_.adds && accumulate(1),
                                                           .gain = dparameter(0),
                                                           .shift = dparameter(1)};
      return trainer::cuda::batch_norm_backward(stream(), here<E>(), y<E>(), dy<E>(), gradients,
                                                bindings().backward_scratch);
    });
  }

 private:
  template <typename E>
  trainer::cuda::BatchNormSite<E> here() const {
    return {.rows = rows(),
            .width = size(d_.in),
            .x = x<E>(),
            .other = block_.adds ? x<E>(1) : nullptr,
            .gain = parameter(0),
            .shift = parameter(1),
            .mean = kept(0),
            .inverse = kept(1),
            .activation = block_.activation};
  }
  static bool swaps() { return trainer::cuda::mutation() == trainer::cuda::Mutation::kSwappedStatistics; }

  const NormBlock block_;
};

}  // namespace

// Keeps the mean and the inverse deviation of each feature.
Needs needs_of(const NormBlock& block, const Dimensions& d) {
  const size_t scratch =
      floats_of(trainer::cuda::batch_norm_scratch(static_cast<std::int64_t>(d.rows), static_cast<std::int64_t>(d.in)));
  return {.reads_inputs = true,
          .reads_output = block.adds && block.activation != Activation::kNone,
          .keeps = {d.in, d.in},
          .forward_scratch = scratch,
          .backward_scratch = scratch,
          .cheap = true};
}

Result<std::unique_ptr<Kernel>> make_kernel(const NormBlock& block, Site site) {
  return std::unique_ptr<Kernel>(std::make_unique<NormBlockKernel>(block, std::move(site)));
}

Needs needs_of(const core::ops::BatchNorm& op, const Dimensions& d) {
  return needs_of(NormBlock{.norm = op}, d);
}

Result<std::unique_ptr<Kernel>> make_kernel(const core::ops::BatchNorm& op, Site site) {
  return make_kernel(NormBlock{.norm = op}, std::move(site));
}

}  // namespace lockstep::trainer::backend::cuda
