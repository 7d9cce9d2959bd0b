#include "trainer/backend/cpu/depthwise.h"

#include <utility>

namespace lockstep::trainer::backend::cpu {

namespace {

size_t window_of(const core::ops::Conv2d& op, const Dimensions& d) {
  return static_cast<size_t>(op.kernel * op.kernel) * d.in;
}

class DepthwiseKernel final : public Base {
 public:
  DepthwiseKernel(const core::ops::Conv2d& op, Site site)
      : Base(std::move(site)), image_(windows_of(op, d_)), window_(window_of(op, d_)) {}

  Status forward(const RunContext&) override {
    auto* const weight = static_cast<float*>(bindings().forward_scratch);
    transpose(weight);
    share_image_rows(image_.out_height, [&](size_t sample, size_t begin, size_t end) {
      kernels_.images.depthwise(x() + sample * read(), weight, image_, begin, end, y() + sample * written());
    });
    return {};
  }
  Status backward(const RunContext&) override {
    add_weights();
    if (dx() == nullptr) return {};
    auto* const weight = static_cast<float*>(bindings().backward_scratch);
    transpose(weight);
    share_image_rows(image_.height, [&](size_t sample, size_t begin, size_t end) {
      kernels_.images.depthwise_input(dy() + sample * written(), weight, image_, begin, end, accumulate(),
                                      dx() + sample * read());
    });
    return {};
  }

 private:
  size_t read() const { return d_.height * d_.width * d_.in; }
  size_t written() const { return d_.out_height * d_.out_width * d_.in; }

  // Calls body(sample, begin, end) on every thread for its rows of images of `height` rows.
  template <typename Body>
  void share_image_rows(size_t height, const Body& body) const {
    share(d_.samples * height, 1, [&](size_t begin, size_t end) {
      while (begin < end) {
        const size_t sample = begin / height, stop = std::min(end, (sample + 1) * height);
        body(sample, begin - sample * height, stop - sample * height);
        begin = stop;
      }
    });
  }

  // From (C, K, K) to (K, K, C).
  void transpose(float* to) const {
    const size_t places = image_.kernel * image_.kernel;
    for (size_t c = 0; c < d_.in; ++c) {
      for (size_t k = 0; k < places; ++k) to[k * d_.in + c] = parameter(0)[c * places + k];
    }
  }

  void add_weights() const {
    auto* const sums = static_cast<double*>(bindings().backward_scratch);
    auto* const rows = reinterpret_cast<float*>(sums + window_ * threads_);
    std::fill_n(sums, window_ * threads_, 0.0);
    const size_t part = share_of(d_.samples * image_.out_height, 1);
    share_image_rows(image_.out_height, [&](size_t sample, size_t begin, size_t end) {
      const size_t thread = (sample * image_.out_height + begin) / part;
      kernels_.images.depthwise_weights(x() + sample * read(), dy() + sample * written(), image_, begin, end,
                                        rows + window_ * thread, sums + window_ * thread);
    });
    const size_t places = image_.kernel * image_.kernel;
    for (size_t c = 0; c < d_.in; ++c) {
      for (size_t k = 0; k < places; ++k) {
        double sum = 0;
        for (size_t i = 0; i < threads_; ++i) sum += sums[window_ * i + k * d_.in + c];
        dparameter(0)[c * places + k] += static_cast<float>(sum);
      }
    }
  }

  const SlidImage image_;
  const size_t window_;  // weights
};

}  // namespace

bool is_depthwise(const core::ops::Conv2d& op, const Dimensions& d) {
  const auto groups = static_cast<size_t>(op.groups);
  return groups > 1 && groups == d.in && groups == d.out && static_cast<size_t>(op.kernel) <= kLargestDepthwise &&
         !op.bias;
}

Needs needs_of(const Depthwise& op, const Dimensions& d, const Team& team) {
  const size_t window = window_of(op.convolution, d), of_floats = sizeof(double) / sizeof(float);
  return {.reads_inputs = true, .forward_scratch = window, .backward_scratch = window * team.threads * (of_floats + 1)};
}

std::unique_ptr<Kernel> make_kernel(const Depthwise& op, Site site) {
  return std::make_unique<DepthwiseKernel>(op.convolution, std::move(site));
}

}  // namespace lockstep::trainer::backend::cpu
