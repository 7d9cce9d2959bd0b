#include <utility>

#include "trainer/backend/cpu/norm_block.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class BatchNormKernel final : public Base {
 public:
  BatchNormKernel(const core::ops::BatchNorm& op, Site site) : Base(std::move(site)), op_(op) {}
  Status forward(const RunContext& context) override {
    bool train = context.mode == RunContext::Mode::kTrain;
    share_columns(d_.in, [&](size_t begin, size_t end) {
      kernels_.batch_norm(x(), parameter(0), parameter(1), d_.rows, d_.in, begin, end, static_cast<float>(op_.epsilon),
                          train, bindings().statistics[0], bindings().statistics[1], bindings().staged_statistics[0],
                          bindings().staged_statistics[1], kept(0), kept(1), y());
    });
    return {};
  }
  Status backward(const RunContext&) override {
    share_columns(d_.in, [&](size_t begin, size_t end) {
      kernels_.batch_norm_backward(x(), parameter(0), kept(0), kept(1), dy(), d_.rows, d_.in, begin, end, accumulate(),
                                   dx(), dparameter(0), dparameter(1));
    });
    return {};
  }

 private:
  core::ops::BatchNorm op_;
};

}  // namespace

// Keeps the mean and the inverse deviation of each feature.
Needs needs_of(const core::ops::BatchNorm& op, const Dimensions& d, const Team& team) {
  if (is_over_images(d)) return needs_of(NormBlock{.norm = op}, d, team);
  return {.reads_inputs = true, .keeps = {d.in, d.in}, .cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::BatchNorm& op, Site site) {
  if (is_over_images(dimensions_of(site.at.graph, site.at.node))) {
    return make_kernel(NormBlock{.norm = op}, std::move(site));
  }
  return std::make_unique<BatchNormKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
