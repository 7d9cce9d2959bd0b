#include "trainer/backend/cuda/kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::attention_test {
namespace {

using testing::expect_close;
using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;

// The formulas in double. Gradients start at 0.
struct Expected {
  Expected(const AttentionShape& of, const std::vector<float>& qkv, const std::vector<float>& dy)
      : shape(of),
        p(static_cast<size_t>(of.probabilities())),
        y(static_cast<size_t>(of.samples * of.positions * of.width())),
        dqkv(qkv.size()) {
    const double scale = 1 / std::sqrt(static_cast<double>(shape.head));
    std::vector<double> scores(static_cast<size_t>(shape.positions)), dp(scores.size());
    for (std::int64_t sh = 0; sh < shape.samples * shape.heads; ++sh) {
      for (std::int64_t t = 0; t < shape.positions; ++t) {
        double sum = 0, along = 0;
        for (std::int64_t u = 0; u <= t; ++u) {
          double score = 0;
          for (std::int64_t i = 0; i < shape.head; ++i) score += double{qkv[at(sh, t, 0, i)]} * qkv[at(sh, u, 1, i)];
          sum += scores[static_cast<size_t>(u)] = std::exp(score * scale);
        }
        for (std::int64_t u = 0; u <= t; ++u) {
          const auto place = static_cast<size_t>((sh * shape.positions + t) * shape.positions + u);
          p[place] = scores[static_cast<size_t>(u)] / sum;
          double& gradient = dp[static_cast<size_t>(u)] = 0;
          for (std::int64_t i = 0; i < shape.head; ++i) {
            y[out(sh, t, i)] += p[place] * qkv[at(sh, u, 2, i)];
            gradient += double{dy[out(sh, t, i)]} * qkv[at(sh, u, 2, i)];
            dqkv[at(sh, u, 2, i)] += p[place] * dy[out(sh, t, i)];
          }
          along += p[place] * gradient;
        }
        for (std::int64_t u = 0; u <= t; ++u) {
          const auto place = static_cast<size_t>((sh * shape.positions + t) * shape.positions + u);
          const double ds = p[place] * (dp[static_cast<size_t>(u)] - along) * scale;
          for (std::int64_t i = 0; i < shape.head; ++i) {
            dqkv[at(sh, t, 0, i)] += ds * qkv[at(sh, u, 1, i)];
            dqkv[at(sh, u, 1, i)] += ds * qkv[at(sh, t, 0, i)];
          }
        }
      }
    }
  }
  size_t at(std::int64_t sh, std::int64_t t, std::int64_t part, std::int64_t i) const {
    const std::int64_t row = sh / shape.heads * shape.positions + t;
    return static_cast<size_t>((row * 3 + part) * shape.width() + sh % shape.heads * shape.head + i);
  }
  size_t out(std::int64_t sh, std::int64_t t, std::int64_t i) const {
    const std::int64_t row = sh / shape.heads * shape.positions + t;
    return static_cast<size_t>(row * shape.width() + sh % shape.heads * shape.head + i);
  }

  AttentionShape shape;
  std::vector<double> p, y, dqkv;
};

class AttentionKernels : public ::testing::TestWithParam<AttentionShape> {};

TEST_P(AttentionKernels, compute_the_formulas) {
  const AttentionShape shape = GetParam();
  const auto outputs = static_cast<size_t>(shape.samples * shape.positions * shape.width());
  const std::vector<float> inputs = numbers(3 * outputs, 1), gradients = numbers(outputs, 2);
  const std::vector<float> start = numbers(3 * outputs, 3);
  const Expected expected(shape, inputs, gradients);
  in_every_order([&] {
    for (const bool accumulate : {false, true}) {
      Guarded<float> qkv(inputs), p(expected.p.size()), y(outputs), dy(gradients);
      expect_success(causal_attention_forward<float>(nullptr, shape, qkv.data(), p.data(), y.data()));
      expect_close(p.values(), expected.p, 1e-5);
      expect_close(y.values(), expected.y, 1e-5);

      Guarded<float> dqkv(accumulate ? start : std::vector<float>(3 * outputs, NAN));
      Guarded<float> scratch(causal_attention_scratch(shape) / sizeof(float));
      expect_success(causal_attention_backward(nullptr, shape, qkv.data(), p.data(), dy.data(), dqkv.data(), accumulate,
                                               scratch.data()));
      std::vector<double> sums = expected.dqkv;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += accumulate ? static_cast<double>(start[i]) : 0;
      expect_close(dqkv.values(), sums, 2e-5);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionKernels,
                         ::testing::Values(AttentionShape{1, 1, 1, 1}, AttentionShape{2, 3, 2, 5},
                                           AttentionShape{1, 33, 3, 4}, AttentionShape{2, 32, 1, 33},
                                           AttentionShape{1, 70, 2, 16}));

TEST(AttentionKernelsAtTheLimit, refuse_more_positions_than_shared_memory_holds) {
  const AttentionShape shape{.samples = 1, .positions = kMaxPositions + 1, .heads = 1, .head = 1};
  EXPECT_EQ(causal_attention_forward<float>(nullptr, shape, nullptr, nullptr, nullptr), CudaError::kInvalidValue);
  EXPECT_EQ(causal_attention_backward<float>(nullptr, shape, nullptr, nullptr, nullptr, nullptr, false, nullptr),
            CudaError::kInvalidValue);
}

TEST(AttentionKernelsAtTheLimit, scores_that_are_large_do_not_overflow) {
  const AttentionShape shape{.samples = 1, .positions = 2, .heads = 1, .head = 1};
  Guarded<float> qkv(std::vector<float>{100, 100, 1, 100, 90, 2}), p(4), y(2);
  expect_success(causal_attention_forward<float>(nullptr, shape, qkv.data(), p.data(), y.data()));
  expect_close(p.values(), {1, 0, 1, 0}, 1e-6);
  expect_close(y.values(), {1, 1}, 1e-6);
}

}  // namespace
}  // namespace lockstep::trainer::cuda::attention_test
