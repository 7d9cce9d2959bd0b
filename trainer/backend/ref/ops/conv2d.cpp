#include <utility>

#include "trainer/backend/ref/kernel.h"

namespace lockstep::trainer::backend::ref {

namespace {

class Conv2dKernel final : public Base {
 public:
  Conv2dKernel(const core::ops::Conv2d& op, Site site)
      : Base(std::move(site)),
        kernel_(static_cast<size_t>(op.kernel)),
        stride_(static_cast<size_t>(op.stride)),
        padding_(static_cast<size_t>(op.padding)),
        group_in_(d_.in / static_cast<size_t>(op.groups)),
        group_out_(d_.out / static_cast<size_t>(op.groups)),
        bias_(op.bias) {}
  Status forward(const RunContext&) override {
    for (size_t i = 0; i < d_.samples * d_.out_height * d_.out_width * d_.out; ++i) {
      y()[i] = bias_ ? parameter(1)[i % d_.out] : 0;
    }
    for_each_product([&](size_t x_at, size_t w_at, size_t y_at) { y()[y_at] += x()[x_at] * parameter(0)[w_at]; });
    return {};
  }
  Status backward(const RunContext&) override {
    if (bias_) {
      for (size_t i = 0; i < d_.samples * d_.out_height * d_.out_width * d_.out; ++i) {
        dparameter(1)[i % d_.out] += dy()[i];
      }
    }
    if (dx() != nullptr && !accumulate()) {
      for (size_t i = 0; i < elements(); ++i) dx()[i] = 0;
    }
    for_each_product([&](size_t x_at, size_t w_at, size_t y_at) {
      dparameter(0)[w_at] += dy()[y_at] * x()[x_at];
      if (dx() != nullptr) dx()[x_at] += dy()[y_at] * parameter(0)[w_at];
    });
    return {};
  }

 private:
  // Calls body(index of the input, of the weight, of the output) for each product of the sums.
  template <typename Body>
  void for_each_product(const Body& body) const {
    for (size_t n = 0; n < d_.samples; ++n) {
      for (size_t oh = 0; oh < d_.out_height; ++oh) {
        for (size_t ow = 0; ow < d_.out_width; ++ow) {
          for (size_t kh = 0; kh < kernel_; ++kh) {
            for (size_t kw = 0; kw < kernel_; ++kw) {
              const size_t h = oh * stride_ + kh - padding_, w = ow * stride_ + kw - padding_;  // before 0: huge
              if (h >= d_.height || w >= d_.width) continue;
              const size_t pixel = (n * d_.height + h) * d_.width + w;
              const size_t written = (n * d_.out_height + oh) * d_.out_width + ow;
              for (size_t o = 0; o < d_.out; ++o) {
                for (size_t i = 0; i < group_in_; ++i) {
                  body(pixel * d_.in + o / group_out_ * group_in_ + i,
                       ((o * kernel_ + kh) * kernel_ + kw) * group_in_ + i, written * d_.out + o);
                }
              }
            }
          }
        }
      }
    }
  }

  const size_t kernel_, stride_, padding_, group_in_, group_out_;
  const bool bias_;
};

}  // namespace

Needs needs_of(const core::ops::Conv2d&, const Dimensions&) {
  return {.reads_inputs = true};
}

std::unique_ptr<Kernel> make_kernel(const core::ops::Conv2d& op, Site site) {
  return std::make_unique<Conv2dKernel>(op, std::move(site));
}

}  // namespace lockstep::trainer::backend::ref
