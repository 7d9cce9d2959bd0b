#include <cmath>
#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class MaxPool2dKernel final : public Base {
 public:
  MaxPool2dKernel(const core::ops::MaxPool2d& op, Site site)
      : Base(std::move(site)),
        kernel_(static_cast<size_t>(op.kernel)),
        stride_(static_cast<size_t>(op.stride)),
        padding_(static_cast<size_t>(op.padding)) {}
  Status forward(const RunContext&) override {
    for_each_window([&](size_t y_at, size_t x_at) { y()[y_at] = x()[x_at]; });
    return {};
  }
  Status backward(const RunContext&) override {
    if (dx() == nullptr) return {};
    if (!accumulate()) {
      for (size_t i = 0; i < elements(); ++i) dx()[i] = 0;
    }
    for_each_window([&](size_t y_at, size_t x_at) { dx()[x_at] += dy()[y_at]; });
    return {};
  }

 private:
  // Calls body(index of the output, index of the input that is the largest of its window).
  template <typename Body>
  void for_each_window(const Body& body) const {
    for (size_t n = 0; n < d_.samples; ++n) {
      for (size_t oh = 0; oh < d_.out_height; ++oh) {
        for (size_t ow = 0; ow < d_.out_width; ++ow) {
          for (size_t c = 0; c < d_.in; ++c) {
            body(((n * d_.out_height + oh) * d_.out_width + ow) * d_.in + c, largest_of(n, oh, ow, c));
          }
        }
      }
    }
  }
  size_t largest_of(size_t n, size_t oh, size_t ow, size_t c) const {
    double largest = -HUGE_VAL;
    size_t found = SIZE_MAX;
    for (size_t kh = 0; kh < kernel_; ++kh) {
      for (size_t kw = 0; kw < kernel_; ++kw) {
        const size_t h = oh * stride_ + kh - padding_, w = ow * stride_ + kw - padding_;  // before 0: huge
        if (h >= d_.height || w >= d_.width) continue;
        const size_t at = ((n * d_.height + h) * d_.width + w) * d_.in + c;
        if (found != SIZE_MAX && !(x()[at] > largest) && !std::isnan(x()[at])) continue;
        if (std::isnan(largest)) continue;
        largest = x()[at];
        found = at;
      }
    }
    return found;
  }

  const size_t kernel_, stride_, padding_;
};

}  // namespace

Needs needs_of(const core::ops::MaxPool2d&, const Dimensions&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::MaxPool2d& op, Site site) {
  return std::make_unique<MaxPool2dKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
