#include <cstdint>
#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class DropoutKernel final : public Base {
 public:
  DropoutKernel(const core::ops::Dropout& op, Site site) : Base(std::move(site)), op_(op) {}
  Status forward(const RunContext& context) override {
    for_each(context, [&](size_t i, double factor) { y()[i] = x()[i] * factor; });
    return {};
  }
  Status backward(const RunContext& context) override {
    for_each(context, [&](size_t i, double factor) { give(0, i, dy()[i] * factor); });
    return {};
  }

 private:
  template <typename Body>
  void for_each(const RunContext& context, const Body& body) const {
    bool trains = context.mode == RunContext::Mode::kTrain;
    size_t each = elements() / d_.samples;
    std::uint64_t layer = core::derive(0, node().name);
    for (size_t s = 0; s < d_.samples; ++s) {
      std::uint64_t key = dropout_key(context, layer, s);
      for (size_t i = 0; i < each; ++i) {
        bool keep = core::element_bits(key, static_cast<std::uint32_t>(i)) >= dropout_threshold(op_.rate);
        body(s * each + i, !trains ? 1.0 : keep ? 1 / (1 - op_.rate) : 0.0);
      }
    }
  }
  core::ops::Dropout op_;
};

}  // namespace

Needs needs_of(const core::ops::Dropout&, const Dimensions&) {
  return {};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Dropout& op, Site site) {
  return std::make_unique<DropoutKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
