#include "trainer/backend/cuda/kernels/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda {
namespace {

using testing::expect_close;
using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;

constexpr double kEpsilon = 1e-5;

// The formulas in double. Gradients start at 0.
struct Expected {
  Expected(size_t rows, size_t width, const std::vector<float>& x, const std::vector<float>& gain,
           const std::vector<float>& shift, const std::vector<float>& g)
      : y(rows * width), dx(rows * width), dgain(width), dshift(width), mean(width), variance(width) {
    const auto n = static_cast<double>(rows);
    for (size_t c = 0; c < width; ++c) {
      const auto value = [&](size_t r) { return static_cast<double>(x[r * width + c]); };
      const auto gradient = [&](size_t r) { return static_cast<double>(g[r * width + c]); };
      for (size_t r = 0; r < rows; ++r) mean[c] += value(r) / n;
      double biased = 0;
      for (size_t r = 0; r < rows; ++r) biased += (value(r) - mean[c]) * (value(r) - mean[c]) / n;
      variance[c] = biased * n / (n - 1);
      const double inverse = 1 / std::sqrt(biased + kEpsilon);
      for (size_t r = 0; r < rows; ++r) {
        const double normal = (value(r) - mean[c]) * inverse;
        y[r * width + c] = normal * gain[c] + shift[c];
        dgain[c] += gradient(r) * normal;
        dshift[c] += gradient(r);
      }
      for (size_t r = 0; r < rows; ++r) {
        const double normal = (value(r) - mean[c]) * inverse;
        dx[r * width + c] = gain[c] * inverse * (gradient(r) - dshift[c] / n - normal * dgain[c] / n);
      }
    }
  }

  std::vector<double> y, dx, dgain, dshift, mean, variance;
};

std::vector<float> narrowed(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

struct Size {
  size_t rows, width;
};

class BatchNormKernels : public ::testing::TestWithParam<Size> {};

TEST_P(BatchNormKernels, compute_the_formulas) {
  const auto [rows, width] = GetParam();
  const auto r = static_cast<std::int64_t>(rows), w = static_cast<std::int64_t>(width);
  std::vector<float> inputs = numbers(rows * width, 1);
  for (float& value : inputs) value += 50;  // a mean that is large beside the deviation
  const std::vector<float> start = numbers(rows * width, 9), start_gain = numbers(width, 8);
  const std::vector<float> gains = numbers(width, 2), shifts = numbers(width, 3), gradients = numbers(rows * width, 4);
  const Expected expected(rows, width, inputs, gains, shifts, gradients);
  in_every_order([&] {
    for (const bool accumulate : {false, true}) {
      Guarded<float> x(inputs), gain(gains), shift(shifts), dy(gradients), y(rows * width), mean(width), inverse(width);
      Guarded<double> staged_mean(width), staged_variance(width);
      Guarded<double> scratch(batch_norm_scratch(r, w) / sizeof(double));
      expect_success(batch_norm_train(nullptr, x.data(), gain.data(), shift.data(), staged_mean.data(),
                                      staged_variance.data(), mean.data(), inverse.data(), y.data(), r, w, kEpsilon,
                                      scratch.data()));
      expect_close(y.values(), expected.y, 1e-4);
      expect_close(narrowed(staged_mean.values()), expected.mean, 1e-6);
      expect_close(narrowed(staged_variance.values()), expected.variance, 1e-6);

      Guarded<float> dx(accumulate ? start : std::vector<float>(rows * width, NAN));
      Guarded<float> dgain(start_gain), dshift(start_gain);
      expect_success(batch_norm_backward(nullptr, x.data(), gain.data(), mean.data(), inverse.data(), dy.data(),
                                         dx.data(), dgain.data(), dshift.data(), r, w, accumulate, scratch.data()));
      std::vector<double> sums = expected.dx, gain_sums = expected.dgain, shift_sums = expected.dshift;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += accumulate ? static_cast<double>(start[i]) : 0;
      for (size_t c = 0; c < width; ++c) {
        gain_sums[c] += start_gain[c];
        shift_sums[c] += start_gain[c];
      }
      expect_close(dx.values(), sums, 1e-4);
      expect_close(dgain.values(), gain_sums, 1e-4);
      expect_close(dshift.values(), shift_sums, 1e-5);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, BatchNormKernels,
                         ::testing::Values(Size{2, 1}, Size{3, 33}, Size{128, 5}, Size{129, 130}, Size{300, 2}));

TEST(BatchNormInEvaluation, uses_the_running_statistics) {
  Guarded<float> x(std::vector<float>{0, 3, 6, 9}), gain(std::vector<float>{2, 1}), shift(std::vector<float>{1, 0});
  Guarded<double> mean(std::vector<double>{2, 5}), variance(std::vector<double>{4, 0.25});
  Guarded<float> narrow_mean(2), inverse(2), y(4);
  expect_success(batch_norm_evaluate(nullptr, x.data(), gain.data(), shift.data(), mean.data(), variance.data(),
                                     narrow_mean.data(), inverse.data(), y.data(), 2, 2, 0));
  expect_close(y.values(), {-1, -4, 5, 8}, 1e-6);
}

}  // namespace
}  // namespace lockstep::trainer::cuda
