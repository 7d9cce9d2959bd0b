#include <algorithm>
#include <utility>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

namespace {

class GlobalAveragePoolKernel final : public Base {
 public:
  using Base::Base;
  Status forward(const RunContext&) override {
    share(d_.samples, 1, [&](size_t begin, size_t end) {
      for (size_t s = begin; s < end; ++s) {
        float* mean = y() + s * d_.in;
        std::fill_n(mean, d_.in, 0.0f);
        kernels_.add_column_sums(x() + s * d_.positions * d_.in, d_.positions, d_.in, 0, d_.in, mean);
        for (size_t c = 0; c < d_.in; ++c) mean[c] *= share_of_pixel();
      }
    });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    const bool adds = accumulate();
    share_rows([&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        const float* from = dy() + r / d_.positions * d_.in;
        float* to = dx() + r * d_.in;
        for (size_t c = 0; c < d_.in; ++c) to[c] = (adds ? to[c] : 0.0f) + from[c] * share_of_pixel();
      }
    });
    return {};
  }

 private:
  float share_of_pixel() const { return 1.0f / static_cast<float>(d_.positions); }
};

}  // namespace

Needs needs_of(const core::ops::GlobalAveragePool&, const Dimensions&, const Team&) {
  return {};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::GlobalAveragePool&, Site site) {
  return std::make_unique<GlobalAveragePoolKernel>(std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
