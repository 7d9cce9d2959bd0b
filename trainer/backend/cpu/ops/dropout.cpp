#include <cstdint>
#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class DropoutKernel final : public Base {
 public:
  DropoutKernel(const core::ops::Dropout& op, Site site)
      : Base(std::move(site)), op_(op), layer_(core::derive(0, node().name)) {}
  Status forward(const RunContext& context) override {
    if (context.mode == RunContext::Mode::kTrain) {
      run(context, x(), false, y());
    } else {
      kernels_.give(x(), elements(), false, y());
    }
    return {};
  }
  Status backward(const RunContext& context) override {
    if (dx() != nullptr) run(context, dy(), accumulate(), dx());
    return {};
  }

 private:
  void run(const RunContext& context, const float* from, bool add, float* to) const {
    size_t each = elements() / d_.samples;
    auto factor = static_cast<float>(1.0 / (1.0 - op_.rate));
    share(d_.samples, 1, [&](size_t begin, size_t end) {
      for (size_t s = begin; s < end; ++s) {
        kernels_.dropout(from + s * each, each, dropout_key(context, layer_, s), dropout_threshold(op_.rate), factor,
                         add, to + s * each);
      }
    });
  }
  core::ops::Dropout op_;
  std::uint64_t layer_;
};

}  // namespace

Needs needs_of(const core::ops::Dropout&, const Dimensions&, const Team&) {
  return {};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Dropout& op, Site site) {
  return std::make_unique<DropoutKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
