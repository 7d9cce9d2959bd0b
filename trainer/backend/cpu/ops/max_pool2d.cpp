#include <algorithm>
#include <utility>

#include "trainer/backend/cpu/kernel.h"
#include "trainer/backend/cpu/relu_max_pool.h"

namespace lockstep::trainer::backend::cpu {

namespace {

// Not oneDNN's: its comparison drops a NaN that is not the first of its window.
class MaxPool2dKernel final : public Base {
 public:
  MaxPool2dKernel(const core::ops::MaxPool2d& op, bool relu, Site site)
      : Base(std::move(site)), image_(windows_of(op, d_)), relu_(relu) {}
  Status forward(const RunContext&) override {
    share(d_.samples, 1, [&](size_t begin, size_t end) {
      for (size_t s = begin; s < end; ++s) {
        kernels_.images.max_pool(x() + s * read(), image_, relu_, y() + s * written());
      }
    });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    const bool adds = accumulate();
    share(d_.samples, 1, [&](size_t begin, size_t end) {
      for (size_t s = begin; s < end; ++s) {
        if (!adds) std::fill_n(dx() + s * read(), read(), 0.0f);
        kernels_.images.max_pool_backward(x() + s * read(), dy() + s * written(), image_, relu_, dx() + s * read());
      }
    });
    return {};
  }

 private:
  size_t read() const { return d_.height * d_.width * d_.in; }
  size_t written() const { return d_.out_height * d_.out_width * d_.in; }

  const SlidImage image_;
  const bool relu_;  // a ReLU comes before
};

}  // namespace

Needs needs_of(const core::ops::MaxPool2d&, const Dimensions&, const Team&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::MaxPool2d& op, Site site) {
  return std::make_unique<MaxPool2dKernel>(op, false, std::move(site));
}

Needs needs_of(const ReluMaxPool&, const Dimensions&, const Team&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const ReluMaxPool& op, Site site) {
  return std::make_unique<MaxPool2dKernel>(op.pool, true, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
