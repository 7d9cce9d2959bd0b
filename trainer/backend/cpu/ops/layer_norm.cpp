#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class LayerNormKernel final : public Base {
 public:
  LayerNormKernel(const core::ops::LayerNorm& op, Site site) : Base(std::move(site)), op_(op) {}
  Status forward(const RunContext&) override {
    share_rows([&](size_t begin, size_t end) {
      kernels_.layer_norm(x() + begin * d_.in, parameter(0), parameter(1), end - begin, d_.in,
                          static_cast<float>(op_.epsilon), kept(0) + begin, kept(1) + begin, y() + begin * d_.in);
    });
    return {};
  }
  Status backward(const RunContext&) override {
    share_columns(d_.in, [&](size_t begin, size_t end) {
      kernels_.layer_norm_parameters(x(), kept(0), kept(1), dy(), d_.rows, d_.in, begin, end, dparameter(0),
                                     dparameter(1));
    });
    if (dx() == nullptr) return {};
    share_rows([&](size_t begin, size_t end) {
      kernels_.layer_norm_backward(x() + begin * d_.in, parameter(0), kept(0) + begin, kept(1) + begin,
                                   dy() + begin * d_.in, end - begin, d_.in, accumulate(), dx() + begin * d_.in);
    });
    return {};
  }

 private:
  core::ops::LayerNorm op_;
};

}  // namespace

// Keeps the mean and the inverse deviation of each row.
Needs needs_of(const core::ops::LayerNorm&, const Dimensions& d, const Team&) {
  return {.reads_inputs = true, .keeps = {d.rows, d.rows}, .cheap = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::LayerNorm& op, Site site) {
  return std::make_unique<LayerNormKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
