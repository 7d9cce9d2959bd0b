#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class GlobalAveragePoolKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    for (size_t i = 0; i < d_.samples * d_.in; ++i) y()[i] = 0;
    for (size_t i = 0; i < elements(); ++i) y()[written_by(i)] += x()[i] / static_cast<double>(d_.positions);
    return {};
  }
  Status backward(const RunContext&) override {
    for (size_t i = 0; i < elements(); ++i) give(0, i, dy()[written_by(i)] / static_cast<double>(d_.positions));
    return {};
  }

 private:
  size_t written_by(size_t i) const { return i / (d_.positions * d_.in) * d_.in + i % d_.in; }
};

}  // namespace

Needs needs_of(const core::ops::GlobalAveragePool&, const Dimensions&) {
  return {};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::GlobalAveragePool&, Site site) {
  return std::make_unique<GlobalAveragePoolKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
