#include "trainer/backend/cuda/kernels/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"
#include "trainer/backend/cuda/kernels/bias.h"
#include "trainer/backend/cuda/kernels/dropout.h"
#include "trainer/backend/dimensions.h"

namespace lockstep::trainer::cuda::elementwise_test {
namespace {

using testing::expect_close;
using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;

constexpr size_t kSizes[] = {1, 31, 255, 256, 257, 1000};

std::int64_t count_of(size_t count) {
  return static_cast<std::int64_t>(count);
}

// Calls check(size, accumulate) for every size, order and way to write a gradient.
template <typename Check>
void for_each_case(const Check& check) {
  in_every_order([&] {
    for (const size_t size : kSizes) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(size);
        check(size, accumulate);
      }
    }
  });
}

// What `gradient` adds to, if it accumulates: 0.5.
std::vector<double> on_top(std::vector<double> gradient, bool accumulate) {
  if (accumulate) {
    for (double& g : gradient) g += 0.5;
  }
  return gradient;
}

// An array to write gradients to: of 0.5 if they accumulate, else of NaNs.
std::vector<float> base(size_t size, bool accumulate) {
  return std::vector<float>(size, accumulate ? 0.5F : std::numeric_limits<float>::quiet_NaN());
}

TEST(Elementwise, add_adds) {
  for_each_case([](size_t size, bool) {
    Guarded<float> a(numbers(size, 1)), b(numbers(size, 2)), y(size);
    expect_success(add(nullptr, a.data(), b.data(), y.data(), count_of(size)));
    std::vector<double> expected(size);
    for (size_t i = 0; i < size; ++i) expected[i] = a.data()[i] + b.data()[i];
    expect_close(y.values(), expected, 0);
  });
}

TEST(Elementwise, add_may_write_to_an_operand) {
  Guarded<float> a(numbers(100, 1)), b(numbers(100, 2));
  const std::vector<float> before = a.values();
  expect_success(add(nullptr, a.data(), b.data(), a.data(), 100));
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(a.data()[i], before[i] + b.data()[i]);
}

TEST(Elementwise, give_copies_or_adds) {
  for_each_case([](size_t size, bool accumulate) {
    Guarded<float> from(numbers(size)), to(base(size, accumulate));
    expect_success(give(nullptr, from.data(), to.data(), count_of(size), accumulate));
    const std::vector<float> values = from.values();
    expect_close(to.values(), on_top({values.begin(), values.end()}, accumulate), 1e-7);
  });
}

TEST(Elementwise, relu_and_its_gradient) {
  for_each_case([](size_t size, bool accumulate) {
    Guarded<float> x(numbers(size, 1)), y(size), dy(numbers(size, 2)), dx(base(size, accumulate));
    expect_success(relu_forward(nullptr, x.data(), y.data(), count_of(size)));
    expect_success(relu_backward(nullptr, y.data(), dy.data(), dx.data(), count_of(size), accumulate));
    std::vector<double> outputs(size), gradients(size);
    for (size_t i = 0; i < size; ++i) {
      const bool above = x.data()[i] > 0;
      outputs[i] = above ? static_cast<double>(x.data()[i]) : 0;
      gradients[i] = above ? static_cast<double>(dy.data()[i]) : 0;
    }
    expect_close(y.values(), outputs, 0);
    expect_close(dx.values(), on_top(gradients, accumulate), 1e-7);
  });
}

TEST(Elementwise, relu_passes_a_nan) {
  Guarded<float> x(std::vector<float>{std::numeric_limits<float>::quiet_NaN(), -1, 1}), y(3);
  expect_success(relu_forward(nullptr, x.data(), y.data(), 3));
  expect_close(y.values(), {std::nan(""), 0, 1}, 0);
}

TEST(Elementwise, relu6_and_its_gradient) {
  for_each_case([](size_t size, bool accumulate) {
    std::vector<float> inputs = numbers(size, 1);
    for (float& value : inputs) value *= 6;
    Guarded<float> x(inputs), y(size), dy(numbers(size, 2)), dx(base(size, accumulate));
    expect_success(relu6_forward(nullptr, x.data(), y.data(), count_of(size)));
    expect_success(relu6_backward(nullptr, y.data(), dy.data(), dx.data(), count_of(size), accumulate));
    std::vector<double> outputs(size), gradients(size);
    for (size_t i = 0; i < size; ++i) {
      outputs[i] = std::fmin(std::fmax(static_cast<double>(inputs[i]), 0), 6);
      gradients[i] = inputs[i] > 0 && inputs[i] < 6 ? static_cast<double>(dy.data()[i]) : 0;
    }
    expect_close(y.values(), outputs, 0);
    expect_close(dx.values(), on_top(gradients, accumulate), 1e-7);
  });
}

TEST(Elementwise, relu6_passes_a_nan_and_its_gradient_but_none_at_the_corners) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  Guarded<float> x(std::vector<float>{kNan, 0, 6, -kInf, kInf, 5}), y(6), dy(std::vector<float>(6, 2)), dx(6);
  expect_success(relu6_forward(nullptr, x.data(), y.data(), 6));
  expect_success(relu6_backward(nullptr, y.data(), dy.data(), dx.data(), 6, false));
  expect_close(y.values(), {std::nan(""), 0, 6, 0, 6, 5}, 0);
  expect_close(dx.values(), {2, 0, 0, 0, 0, 2}, 0);
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Elementwise, gelu_and_its_gradient) {
  for_each_case([](size_t size, bool accumulate) {
    std::vector<float> inputs = numbers(size, 1);
    for (float& x : inputs) x *= 4;
    Guarded<float> x(inputs), y(size), dy(numbers(size, 2)), dx(base(size, accumulate));
    expect_success(gelu_forward(nullptr, x.data(), y.data(), count_of(size)));
    expect_success(gelu_backward(nullptr, x.data(), dy.data(), dx.data(), count_of(size), accumulate));
    std::vector<double> outputs(size), gradients(size);
    for (size_t i = 0; i < size; ++i) {
      const auto at = static_cast<double>(inputs[i]);
      outputs[i] = gelu(at);
      gradients[i] = static_cast<double>(dy.data()[i]) * (gelu(at + 1e-5) - gelu(at - 1e-5)) / 2e-5;
    }
    expect_close(y.values(), outputs, 1e-6);
    expect_close(dx.values(), on_top(gradients, accumulate), 1e-6);
  });
}

TEST(Elementwise, gelu_of_huge_numbers_is_finite) {
  Guarded<float> x(std::vector<float>{-1e6F, -100, 100, 1e6F}), y(4), dy(std::vector<float>(4, 1)), dx(4);
  expect_success(gelu_forward(nullptr, x.data(), y.data(), 4));
  expect_success(gelu_backward(nullptr, x.data(), dy.data(), dx.data(), 4, false));
  expect_close(y.values(), {0, 0, 100, 1e6}, 1e-6);
  expect_close(dx.values(), {0, 0, 1, 1}, 1e-6);
}

TEST(Elementwise, no_elements_are_a_success_without_a_launch) {
  expect_success(add<float>(nullptr, nullptr, nullptr, nullptr, 0));
  expect_success(add_column_sums<float>(nullptr, nullptr, nullptr, 0, 7, nullptr));
  EXPECT_EQ(column_sums_scratch(0, 7), 0U);
}

struct Matrix {
  size_t rows, columns;
};
constexpr Matrix kMatrices[] = {{1, 1}, {3, 129}, {127, 10}, {128, 3}, {129, 128}, {300, 257}};

TEST(Bias, is_added_to_each_row) {
  in_every_order([] {
    for (const auto [rows, columns] : kMatrices) {
      SCOPED_TRACE(rows * 1000 + columns);
      const std::vector<float> start = numbers(rows * columns, 1);
      Guarded<float> bias(numbers(columns, 2)), y(start);
      expect_success(add_bias(nullptr, bias.data(), y.data(), count_of(rows), count_of(columns)));
      std::vector<double> expected(start.begin(), start.end());
      for (size_t i = 0; i < rows * columns; ++i) expected[i] += bias.data()[i % columns];
      expect_close(y.values(), expected, 1e-6);
    }
  });
}

TEST(Bias, has_the_sum_of_the_rows_as_its_gradient) {
  in_every_order([] {
    for (const auto [rows, columns] : kMatrices) {
      SCOPED_TRACE(rows * 1000 + columns);
      const std::vector<float> start = numbers(columns, 3);
      Guarded<float> dy(numbers(rows * columns, 1)), sums(start);
      Guarded<float> scratch(column_sums_scratch(count_of(rows), count_of(columns)) / sizeof(float));
      expect_success(
          add_column_sums(nullptr, dy.data(), sums.data(), count_of(rows), count_of(columns), scratch.data()));
      std::vector<double> totals(start.begin(), start.end());
      for (size_t i = 0; i < rows * columns; ++i) totals[i % columns] += dy.data()[i];
      expect_close(sums.values(), totals, 1e-5);
    }
  });
}

TEST(Dropout, keeps_the_elements_that_every_backend_keeps) {
  core::RunContext context{.seed = 5, .step = 7, .first_sample = 11};
  const std::uint64_t layer = core::derive(0, "block.drop");
  const double rate = 0.3;
  const DropoutDraw draw{
      .step_key = core::derive(core::derive(context.seed, "dropout"), static_cast<std::uint64_t>(context.step)),
      .first_sample = static_cast<std::uint64_t>(context.first_sample),
      .layer = layer,
      .threshold = backend::dropout_threshold(rate),
      .factor = static_cast<float>(1 / (1 - rate))};
  for_each_case([&](size_t each, bool accumulate) {
    constexpr size_t kSamples = 3;
    Guarded<float> x(numbers(kSamples * each)), y(base(kSamples * each, accumulate));
    expect_success(dropout(nullptr, draw, x.data(), y.data(), kSamples, count_of(each), accumulate));
    std::vector<double> expected(kSamples * each);
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::uint64_t key = backend::dropout_key(context, layer, i / each);
      const bool kept = core::element_bits(key, static_cast<std::uint32_t>(i % each)) >= draw.threshold;
      expected[i] = kept ? static_cast<double>(x.data()[i] * draw.factor) : 0;
    }
    expect_close(y.values(), on_top(expected, accumulate), 1e-7);
  });
}

}  // namespace
}  // namespace lockstep::trainer::cuda::elementwise_test
