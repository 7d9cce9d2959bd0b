#include "trainer/backend/cuda/kernels/batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::batch_norm_test {
namespace {

using backend::Activation;
using testing::expect_close;
using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;

constexpr double kEpsilon = 1e-5;

struct Inputs {
  size_t rows, width;
  Activation activation;
  std::vector<float> x, other, gain, shift, g;  // no other: 0
};

double activated(double value, Activation activation) {
  if (activation == Activation::kNone) return value;
  return std::clamp(value, 0.0, activation == Activation::kRelu6 ? 6.0 : INFINITY);
}

// The formulas in double. Gradients start at 0. The activation lets through where `y`, the kernel's, lies within it.
struct Expected {
  Expected(const Inputs& of, const std::vector<float>& result)
      : y(of.x.size()),
        through(of.x.size()),
        dx(of.x.size()),
        dgain(of.width),
        dshift(of.width),
        mean(of.width),
        variance(of.width) {
    const auto n = static_cast<double>(of.rows);
    for (size_t c = 0; c < of.width; ++c) {
      const auto at = [&](size_t r) { return r * of.width + c; };
      for (size_t r = 0; r < of.rows; ++r) mean[c] += static_cast<double>(of.x[at(r)]) / n;
      double biased = 0;
      for (size_t r = 0; r < of.rows; ++r) biased += std::pow(static_cast<double>(of.x[at(r)]) - mean[c], 2) / n;
      variance[c] = biased * n / (n - 1);
      const double inverse = 1 / std::sqrt(biased + kEpsilon);
      const auto normal = [&](size_t r) { return (static_cast<double>(of.x[at(r)]) - mean[c]) * inverse; };
      for (size_t r = 0; r < of.rows; ++r) {
        const double other = of.other.empty() ? 0 : static_cast<double>(of.other[at(r)]);
        y[at(r)] = activated(normal(r) * of.gain[c] + of.shift[c] + other, of.activation);
        const bool passes = of.activation == Activation::kNone ||
                            (result[at(r)] > 0 && (of.activation == Activation::kRelu || result[at(r)] < 6));
        through[at(r)] = passes ? static_cast<double>(of.g[at(r)]) : 0;
        dgain[c] += through[at(r)] * normal(r);
        dshift[c] += through[at(r)];
      }
      for (size_t r = 0; r < of.rows; ++r) {
        dx[at(r)] = of.gain[c] * inverse * (through[at(r)] - dshift[c] / n - normal(r) * dgain[c] / n);
      }
    }
  }

  std::vector<double> y, through, dx, dgain, dshift, mean, variance;
};

std::vector<float> narrowed(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

std::vector<double> plus(std::vector<double> sums, const std::vector<float>& values) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(values[i]);
  return sums;
}

struct Case {
  size_t rows, width;
  bool adds = false;
  Activation activation = Activation::kNone;
};

class BatchNormKernels : public ::testing::TestWithParam<Case> {
 protected:
  static Inputs inputs() {
    const auto [rows, width, adds, activation] = GetParam();
    Inputs in{.rows = rows,
              .width = width,
              .activation = activation,
              .x = numbers(rows * width, 1),
              .gain = numbers(width, 2),
              .shift = numbers(width, 3),
              .g = numbers(rows * width, 4)};
    for (float& value : in.x) value += 50;  // a mean that is large beside the deviation
    if (!adds) return in;
    in.other = numbers(rows * width, 5);
    for (float& value : in.other) value *= 6;  // some are clipped
    return in;
  }
};

TEST_P(BatchNormKernels, compute_the_formulas) {
  const Inputs in = inputs();
  const bool adds = !in.other.empty();
  const auto rows = static_cast<std::int64_t>(in.rows), width = static_cast<std::int64_t>(in.width);
  const std::vector<float> start = numbers(in.x.size(), 9), start_gain = numbers(in.width, 8);
  const std::vector<float> unwritten(in.x.size(), NAN);
  in_every_order([&] {
    for (const bool accumulate : {false, true}) {
      Guarded<float> x(in.x), other(in.other), gain(in.gain), shift(in.shift), dy(in.g), y(in.x.size());
      Guarded<float> mean(in.width), inverse(in.width);
      Guarded<double> staged_mean(in.width), staged_variance(in.width);
      Guarded<double> scratch(batch_norm_scratch(rows, width) / sizeof(double));
      const BatchNormSite<float> site{.rows = rows,
                                      .width = width,
                                      .x = x.data(),
                                      .other = adds ? other.data() : nullptr,
                                      .gain = gain.data(),
                                      .shift = shift.data(),
                                      .mean = mean.data(),
                                      .inverse = inverse.data(),
                                      .activation = in.activation};
      expect_success(batch_norm_train(nullptr, site, staged_mean.data(), staged_variance.data(), y.data(), kEpsilon,
                                      scratch.data()));
      const Expected expected(in, y.values());
      expect_close(y.values(), expected.y, 1e-4);
      expect_close(narrowed(staged_mean.values()), expected.mean, 1e-6);
      expect_close(narrowed(staged_variance.values()), expected.variance, 1e-6);

      Guarded<float> dx(accumulate ? start : unwritten), dother(accumulate ? start : unwritten);
      Guarded<float> dgain(start_gain), dshift(start_gain);
      expect_success(batch_norm_backward(nullptr, site, y.data(), dy.data(),
                                         {.dx = dx.data(),
                                          .other = adds ? dother.data() : nullptr,
                                          .adds_to_dx = accumulate,
                                          .adds_to_other = accumulate,
                                          .gain = dgain.data(),
                                          .shift = dshift.data()},
                                         scratch.data()));
      expect_close(dx.values(), accumulate ? plus(expected.dx, start) : expected.dx, 1e-4);
      if (adds) expect_close(dother.values(), accumulate ? plus(expected.through, start) : expected.through, 1e-6);
      expect_close(dgain.values(), plus(expected.dgain, start_gain), 1e-4);
      expect_close(dshift.values(), plus(expected.dshift, start_gain), 1e-5);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, BatchNormKernels,
                         ::testing::Values(Case{2, 1}, Case{3, 33}, Case{128, 5}, Case{129, 130}, Case{300, 2}));
INSTANTIATE_TEST_SUITE_P(WithWhatFollows, BatchNormKernels,
                         ::testing::Values(Case{129, 33, false, Activation::kRelu},
                                           Case{129, 33, false, Activation::kRelu6},
                                           Case{129, 33, true, Activation::kNone},
                                           Case{129, 33, true, Activation::kRelu},
                                           Case{129, 33, true, Activation::kRelu6}));

// The other tensor's gradient may be all that is wanted, or the only one that is not.
TEST(BatchNormBackward, writes_the_gradients_that_are_wanted) {
  const std::vector<float> wanted = {1, 0, 1, 1};  // where y is above 0
  for (const bool of_x : {false, true}) {
    Guarded<float> x(std::vector<float>{0, 3, 6, 9}), other(std::vector<float>{9, -99, 9, 9});
    Guarded<float> gain(std::vector<float>{1, 1}), shift(std::vector<float>{0, 0}), mean(2), inverse(2), y(4);
    Guarded<float> dy(std::vector<float>{1, 1, 1, 1}), dx(4), dother(4), dgain(std::vector<float>(2));
    Guarded<float> dshift(std::vector<float>(2));
    Guarded<double> staged(2), variance(2), scratch(batch_norm_scratch(2, 2) / sizeof(double));
    const BatchNormSite<float> site{.rows = 2,
                                    .width = 2,
                                    .x = x.data(),
                                    .other = other.data(),
                                    .gain = gain.data(),
                                    .shift = shift.data(),
                                    .mean = mean.data(),
                                    .inverse = inverse.data(),
                                    .activation = Activation::kRelu};
    expect_success(batch_norm_train(nullptr, site, staged.data(), variance.data(), y.data(), 0, scratch.data()));
    expect_success(batch_norm_backward(nullptr, site, y.data(), dy.data(),
                                       {.dx = of_x ? dx.data() : nullptr,
                                        .other = of_x ? nullptr : dother.data(),
                                        .adds_to_dx = false,
                                        .adds_to_other = false,
                                        .gain = dgain.data(),
                                        .shift = dshift.data()},
                                       scratch.data()));
    expect_close(dshift.values(), {2, 1}, 1e-6);
    // Two rows: the norm takes what the gradients of a column have in common, and here all of the rest.
    if (of_x) expect_close(dx.values(), {0, 0, 0, 0}, 1e-6);
    if (!of_x) expect_close(dother.values(), {wanted.begin(), wanted.end()}, 1e-6);
  }
}

TEST(BatchNormTrain, keeps_a_deviation_of_a_millionth_of_the_mean) {
  Guarded<float> x(std::vector<float>{1048576, 1048577, 1048578, 1048579}), gain(std::vector<float>{1});
  Guarded<float> shift(std::vector<float>{0}), mean(1), inverse(1), y(4);
  Guarded<double> staged(1), variance(1), scratch(batch_norm_scratch(4, 1) / sizeof(double));
  expect_success(batch_norm_train<float>(nullptr,
                                         {.rows = 4,
                                          .width = 1,
                                          .x = x.data(),
                                          .other = nullptr,
                                          .gain = gain.data(),
                                          .shift = shift.data(),
                                          .mean = mean.data(),
                                          .inverse = inverse.data(),
                                          .activation = Activation::kNone},
                                         staged.data(), variance.data(), y.data(), 0, scratch.data()));
  EXPECT_DOUBLE_EQ(staged.values()[0], 1048577.5);
  EXPECT_DOUBLE_EQ(variance.values()[0], 5.0 / 3);
}

TEST(BatchNormInEvaluation, uses_the_running_statistics) {
  Guarded<float> x(std::vector<float>{0, 3, 6, 9}), gain(std::vector<float>{2, 1}), shift(std::vector<float>{1, 0});
  Guarded<double> mean(std::vector<double>{2, 5}), variance(std::vector<double>{4, 0.25});
  Guarded<float> narrow_mean(2), inverse(2), y(4);
  const BatchNormSite<float> site{.rows = 2,
                                  .width = 2,
                                  .x = x.data(),
                                  .other = nullptr,
                                  .gain = gain.data(),
                                  .shift = shift.data(),
                                  .mean = narrow_mean.data(),
                                  .inverse = inverse.data(),
                                  .activation = Activation::kNone};
  expect_success(batch_norm_evaluate(nullptr, site, mean.data(), variance.data(), y.data(), 0));
  expect_close(y.values(), {-1, -4, 5, 8}, 1e-6);
}

}  // namespace
}  // namespace lockstep::trainer::cuda::batch_norm_test
