#include "trainer/backend/cuda/kernels/max_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/images.h"
#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::max_pool_test {
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

class MaxPoolKernels : public ::testing::TestWithParam<SlidImages> {};

TEST_P(MaxPoolKernels, find_the_first_largest_pixel_and_give_it_the_gradient) {
  const SlidImages k = GetParam();
  std::vector<float> inputs = numbers(elements_in(k), 1);
  for (float& value : inputs) value = std::round(2 * value);  // so that there are equal ones
  const std::vector<float> gradients = numbers(elements_out(k), 2), start = numbers(elements_in(k), 3);
  std::vector<double> largest(elements_out(k), -HUGE_VAL);
  std::vector<std::int32_t> choice(elements_out(k));
  std::vector<size_t> from(elements_out(k));
  for_each_pixel(k, [&](size_t x, size_t tap, size_t y, size_t) {
    if (!(inputs[x] > largest[y])) return;
    largest[y] = static_cast<double>(inputs[x]);
    choice[y] = static_cast<std::int32_t>(tap);
    from[y] = x;
  });
  in_every_order([&] {
    for (const bool accumulate : {false, true}) {
      Guarded<float> x(inputs), y(elements_out(k)), dy(gradients);
      Guarded<std::int32_t> chosen(elements_out(k));
      Guarded<float> dx(accumulate ? start : std::vector<float>(start.size(), NAN));
      expect_success(max_pool_forward(nullptr, k, x.data(), y.data(), chosen.data()));
      expect_success(max_pool_backward(nullptr, k, dy.data(), chosen.data(), dx.data(), accumulate));
      std::vector<double> sums(elements_in(k));
      for (size_t i = 0; i < sums.size(); ++i) sums[i] = accumulate ? static_cast<double>(start[i]) : 0;
      for (size_t i = 0; i < from.size(); ++i) sums[from[i]] += gradients[i];
      expect_close(y.values(), largest, 0);
      EXPECT_EQ(chosen.values(), choice);
      expect_close(dx.values(), sums, 1e-6);
    }
  });
}

const SlidImages kShapes[] = {
    slid({.samples = 1, .height = 1, .width = 1, .channels = 1}),
    slid({.samples = 2, .height = 5, .width = 7, .channels = 3, .kernel = 3, .padding = 1}),
    slid({.samples = 2, .height = 6, .width = 5, .channels = 8, .kernel = 3, .stride = 2, .padding = 1}),
    slid({.samples = 3, .height = 7, .width = 8, .channels = 12, .kernel = 2, .stride = 2}),
    slid({.samples = 3, .height = 4, .width = 9, .channels = 5, .kernel = 5, .stride = 3, .padding = 2}),
    slid({.samples = 1, .height = 7, .width = 6, .channels = 2, .kernel = 2, .stride = 3}),
    slid({.samples = 1, .height = 2, .width = 3, .channels = 4, .kernel = 4, .padding = 2}),
};
INSTANTIATE_TEST_SUITE_P(Shapes, MaxPoolKernels, ::testing::ValuesIn(kShapes));

struct Window {
  std::vector<float> pixels;  // 2 x 2
  std::int32_t chosen;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(MaxPool, takes_the_first_nan_else_the_first_of_equal_values) {
  const Window windows[] = {
      {{1, 3, 3, 2}, 1},
      {{5, 5, 5, 5}, 0},
      {{-4, -4, -5, -3}, 3},
      {{1, kNan, 9, kNan}, 1},
      {{kNan, 9, kInf, kNan}, 0},
      {{9, kInf, 1, kNan}, 3},
      {{0.0F, -0.0F, 0, 0}, 0},
      {{-kInf, -kInf, -kInf, -kInf}, 0},
      {{-kInf, -kInf, -1, -kInf}, 2},
      {{1, kInf, kInf, 2}, 1},
  };
  for (const std::int64_t channels : {1, 4}) {
    for (const Window& window : windows) {
      const SlidImages k = slid({.samples = 1, .height = 2, .width = 2, .channels = channels, .kernel = 2});
      std::vector<float> inputs;
      for (const float pixel : window.pixels) inputs.insert(inputs.end(), static_cast<size_t>(channels), pixel);
      Guarded<float> x(inputs), y(elements_out(k)), dy(std::vector<float>(elements_out(k), 7)), dx(inputs.size());
      Guarded<std::int32_t> chosen(elements_out(k));
      expect_success(max_pool_forward(nullptr, k, x.data(), y.data(), chosen.data()));
      expect_success(max_pool_backward(nullptr, k, dy.data(), chosen.data(), dx.data(), false));
      const auto number = static_cast<size_t>(window.chosen);
      for (size_t c = 0; c < elements_out(k); ++c) {
        EXPECT_EQ(chosen.data()[c], window.chosen);
        expect_close({y.data()[c]}, {static_cast<double>(window.pixels[number])}, 0);
        for (size_t i = 0; i < 4; ++i) EXPECT_EQ(dx.data()[i * elements_out(k) + c], i == number ? 7 : 0);
      }
    }
  }
}

TEST(MaxPool, does_not_take_padding_where_all_pixels_are_negative_infinity) {
  const SlidImages k = slid({.samples = 1, .height = 2, .width = 2, .channels = 1, .kernel = 3, .padding = 1});
  Guarded<float> x(std::vector<float>(4, -kInf)), y(4), dy(std::vector<float>{1, 2, 4, 8}), dx(4);
  Guarded<std::int32_t> chosen(4);
  expect_success(max_pool_forward(nullptr, k, x.data(), y.data(), chosen.data()));
  expect_success(max_pool_backward(nullptr, k, dy.data(), chosen.data(), dx.data(), false));
  EXPECT_EQ(chosen.values(), (std::vector<std::int32_t>{4, 3, 1, 0}));  // the first pixel of the image
  expect_close(dx.values(), {15, 0, 0, 0}, 0);
}

TEST(MaxPool, no_images_are_a_success_without_a_launch) {
  const SlidImages none{.channels = 3, .kernel = 3};
  expect_success(max_pool_forward<float>(nullptr, none, nullptr, nullptr, nullptr));
  expect_success(max_pool_backward<float>(nullptr, none, nullptr, nullptr, nullptr, false));
}

}  // namespace
}  // namespace lockstep::trainer::cuda::max_pool_test
