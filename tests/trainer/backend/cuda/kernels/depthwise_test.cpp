#include "trainer/backend/cuda/kernels/depthwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/images.h"
#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::depthwise_test {
namespace {

using testing::elements_in;
using testing::elements_out;
using testing::expect_close;
using testing::expect_success;
using testing::for_each_pixel;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;
using testing::slid;

std::vector<double> wide(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// A kernel's result in every order of threads: near the formula, and bitwise identical each time.
class Results {
 public:
  explicit Results(std::vector<double> formula) : formula_(std::move(formula)) {}
  void check(Guarded<float>& result) {
    if (first_.empty()) first_ = result.values();
    EXPECT_EQ(result.values(), first_) << "other bits than in the first order";
    expect_close(result.values(), formula_, 1e-5);
  }

 private:
  std::vector<double> formula_;
  std::vector<float> first_;
};

class DepthwiseKernels : public ::testing::TestWithParam<SlidImages> {
 protected:
  const SlidImages k_ = GetParam();
  const size_t window_ = static_cast<size_t>(k_.kernel * k_.kernel), channels_ = static_cast<size_t>(k_.channels);
  const std::vector<float> inputs_ = numbers(elements_in(k_), 1), weights_ = numbers(window_ * channels_, 2),
                           gradients_ = numbers(elements_out(k_), 3);
  Guarded<float> x_{inputs_}, weight_{weights_}, dy_{gradients_};
};

TEST_P(DepthwiseKernels, compute_the_sums_of_products) {
  const std::vector<float> biases = numbers(channels_, 4);
  std::vector<double> plain(elements_out(k_));
  for_each_pixel(k_, [&](size_t x, size_t tap, size_t y, size_t c) {
    plain[y] += static_cast<double>(inputs_[x]) * weights_[c * window_ + tap];
  });
  std::vector<double> biased = plain;
  for (size_t i = 0; i < biased.size(); ++i) biased[i] += biases[i % channels_];
  Results without(plain), with(biased);
  Guarded<float> bias(biases);
  in_every_order([&] {
    Guarded<float> y(elements_out(k_)), scratch(depthwise_scratch(k_) / sizeof(float));
    expect_success(depthwise_forward(nullptr, k_, x_.data(), weight_.data(), nullptr, y.data(), scratch.data()));
    without.check(y);
    expect_success(depthwise_forward(nullptr, k_, x_.data(), weight_.data(), bias.data(), y.data(), scratch.data()));
    with.check(y);
  });
}

TEST_P(DepthwiseKernels, write_or_add_the_gradient_of_the_input) {
  const std::vector<float> start = numbers(elements_in(k_), 5);
  std::vector<double> written(elements_in(k_)), added = wide(start);
  for_each_pixel(k_, [&](size_t x, size_t tap, size_t y, size_t c) {
    const double product = static_cast<double>(gradients_[y]) * weights_[c * window_ + tap];
    written[x] += product;
    added[x] += product;
  });
  Results of_writing(written), of_adding(added);
  in_every_order([&] {
    for (const bool accumulate : {false, true}) {
      Guarded<float> dx(accumulate ? start : std::vector<float>(start.size(), NAN));
      Guarded<float> scratch(depthwise_scratch(k_) / sizeof(float));
      expect_success(
          depthwise_backward_input(nullptr, k_, dy_.data(), weight_.data(), dx.data(), accumulate, scratch.data()));
      (accumulate ? of_adding : of_writing).check(dx);
    }
  });
}

TEST_P(DepthwiseKernels, add_the_gradient_of_the_weights) {
  const std::vector<float> start = numbers(weights_.size(), 6);
  std::vector<double> sums = wide(start);
  for_each_pixel(k_, [&](size_t x, size_t tap, size_t y, size_t c) {
    sums[c * window_ + tap] += static_cast<double>(gradients_[y]) * inputs_[x];
  });
  Results results(sums);
  in_every_order([&] {
    Guarded<float> dweight(start), scratch(depthwise_weight_scratch(k_) / sizeof(float));
    expect_success(depthwise_backward_weight(nullptr, k_, x_.data(), dy_.data(), dweight.data(), scratch.data()));
    results.check(dweight);
  });
}

const SlidImages kShapes[] = {
    slid({.samples = 1, .height = 1, .width = 1, .channels = 1}),
    slid({.samples = 2, .height = 5, .width = 7, .channels = 3, .kernel = 3, .padding = 1}),
    slid({.samples = 2, .height = 6, .width = 5, .channels = 8, .kernel = 3, .stride = 2, .padding = 1}),
    slid({.samples = 1, .height = 7, .width = 8, .channels = 4, .kernel = 2, .stride = 2}),
    slid({.samples = 3, .height = 4, .width = 9, .channels = 5, .kernel = 5, .stride = 3, .padding = 2}),
    slid({.samples = 1, .height = 9, .width = 8, .channels = 36, .kernel = 7, .stride = 2, .padding = 3}),
    slid({.samples = 1, .height = 7, .width = 6, .channels = 2, .kernel = 2, .stride = 3}),
    slid({.samples = 1, .height = 2, .width = 3, .channels = 4, .kernel = 4, .padding = 3}),
    slid({.samples = 1, .height = 16, .width = 8, .channels = 2, .kernel = 3, .padding = 1}),
    slid({.samples = 3, .height = 9, .width = 5, .channels = 12, .kernel = 3, .padding = 1}),
};
INSTANTIATE_TEST_SUITE_P(Shapes, DepthwiseKernels, ::testing::ValuesIn(kShapes));
// More sums of places than one thread adds up.
INSTANTIATE_TEST_SUITE_P(
    Large, DepthwiseKernels,
    ::testing::Values(slid({.samples = 1, .height = 95, .width = 93, .channels = 1, .kernel = 2})));

TEST(Depthwise, keeps_a_nan_to_the_windows_and_the_channel_that_hold_it) {
  const SlidImages k = slid({.samples = 1, .height = 4, .width = 4, .channels = 4, .kernel = 3, .padding = 1});
  std::vector<float> inputs(elements_in(k), 1);
  inputs[2] = NAN;  // the first pixel
  Guarded<float> x(inputs), weight(std::vector<float>(36, 1)), y(elements_out(k)), scratch(36);
  expect_success(depthwise_forward(nullptr, k, x.data(), weight.data(), nullptr, y.data(), scratch.data()));
  for (size_t i = 0; i < elements_out(k); ++i) {
    const size_t row = i / 16, column = i / 4 % 4;
    EXPECT_EQ(std::isnan(y.data()[i]), i % 4 == 2 && row < 2 && column < 2) << i;
  }
}

TEST(Depthwise, no_images_are_a_success_without_a_launch) {
  const SlidImages none{.channels = 3, .kernel = 3};
  expect_success(depthwise_forward<float>(nullptr, none, nullptr, nullptr, nullptr, nullptr, nullptr));
  expect_success(depthwise_backward_input<float>(nullptr, none, nullptr, nullptr, nullptr, false, nullptr));
  expect_success(depthwise_backward_weight<float>(nullptr, none, nullptr, nullptr, nullptr, nullptr));
}

}  // namespace
}  // namespace lockstep::trainer::cuda::depthwise_test
