#include "trainer/backend/cuda/kernels/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::layer_norm_test {
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
      : y(rows * width), dx(rows * width), dgain(width), dshift(width), mean(rows), inverse(rows) {
    const auto n = static_cast<double>(width);
    for (size_t r = 0; r < rows; ++r) {
      const float *row = x.data() + r * width, *gradient = g.data() + r * width;
      double variance = 0, sum_g = 0, sum_gx = 0;
      for (size_t c = 0; c < width; ++c) mean[r] += static_cast<double>(row[c]) / n;
      for (size_t c = 0; c < width; ++c) variance += (row[c] - mean[r]) * (row[c] - mean[r]) / n;
      inverse[r] = 1 / std::sqrt(variance + kEpsilon);
      for (size_t c = 0; c < width; ++c) {
        const double normal = (row[c] - mean[r]) * inverse[r];
        y[r * width + c] = normal * gain[c] + shift[c];
        dgain[c] += gradient[c] * normal;
        dshift[c] += gradient[c];
        sum_g += static_cast<double>(gradient[c]) * gain[c];
        sum_gx += static_cast<double>(gradient[c]) * gain[c] * normal;
      }
      for (size_t c = 0; c < width; ++c) {
        const double normal = (row[c] - mean[r]) * inverse[r];
        dx[r * width + c] = inverse[r] * (static_cast<double>(gradient[c]) * gain[c] - sum_g / n - normal * sum_gx / n);
      }
    }
  }

  std::vector<double> y, dx, dgain, dshift, mean, inverse;
};

struct Size {
  size_t rows, width;
};

class LayerNormKernels : public ::testing::TestWithParam<Size> {};

TEST_P(LayerNormKernels, compute_the_formulas) {
  const auto [rows, width] = GetParam();
  const auto r = static_cast<std::int64_t>(rows), w = static_cast<std::int64_t>(width);
  const std::vector<float> start = numbers(rows * width, 9), start_gain = numbers(width, 8);
  const std::vector<float> inputs = numbers(rows * width, 1), gains = numbers(width, 2), shifts = numbers(width, 3);
  const std::vector<float> gradients = numbers(rows * width, 4);
  const Expected expected(rows, width, inputs, gains, shifts, gradients);
  in_every_order([&] {
    for (const bool accumulate : {false, true}) {
      Guarded<float> x(inputs), gain(gains), shift(shifts), dy(gradients), y(rows * width), mean(rows), inverse(rows);
      expect_success(layer_norm_forward(nullptr, x.data(), gain.data(), shift.data(), mean.data(), inverse.data(),
                                        y.data(), r, w, static_cast<float>(kEpsilon)));
      expect_close(y.values(), expected.y, 1e-5);
      expect_close(mean.values(), expected.mean, 1e-6);
      expect_close(inverse.values(), expected.inverse, 1e-6);

      Guarded<float> dx(accumulate ? start : std::vector<float>(rows * width, NAN));
      expect_success(layer_norm_backward(nullptr, x.data(), gain.data(), mean.data(), inverse.data(), dy.data(),
                                         dx.data(), r, w, accumulate));
      std::vector<double> sums = expected.dx;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += accumulate ? static_cast<double>(start[i]) : 0;
      expect_close(dx.values(), sums, 1e-5);

      Guarded<float> dgain(start_gain), dshift(start_gain);
      Guarded<float> scratch(layer_norm_scratch(r, w) / sizeof(float));
      expect_success(layer_norm_parameters(nullptr, x.data(), mean.data(), inverse.data(), dy.data(), dgain.data(),
                                           dshift.data(), r, w, scratch.data()));
      std::vector<double> gain_sums = expected.dgain, shift_sums = expected.dshift;
      for (size_t c = 0; c < width; ++c) {
        gain_sums[c] += start_gain[c];
        shift_sums[c] += start_gain[c];
      }
      expect_close(dgain.values(), gain_sums, 1e-5);
      expect_close(dshift.values(), shift_sums, 1e-5);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, LayerNormKernels,
                         ::testing::Values(Size{1, 2}, Size{3, 33}, Size{4, 31}, Size{5, 64}, Size{130, 129},
                                           Size{257, 8}));

TEST(LayerNormOfOneRow, with_a_nan_is_nan) {
  Guarded<float> x(std::vector<float>{1, NAN, 3}), ones(std::vector<float>(3, 1)), y(3), mean(1), inverse(1);
  expect_success(layer_norm_forward(nullptr, x.data(), ones.data(), ones.data(), mean.data(), inverse.data(), y.data(),
                                    1, 3, static_cast<float>(kEpsilon)));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_close(y.values(), {nan, nan, nan}, 0);
}

}  // namespace
}  // namespace lockstep::trainer::cuda::layer_norm_test
