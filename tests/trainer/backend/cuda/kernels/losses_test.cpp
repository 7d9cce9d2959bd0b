#include "trainer/backend/cuda/kernels/losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::losses_test {
namespace {

using testing::expect_close;
using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;

struct Case {
  ClassifierShape shape;
  double smoothing;
};

// The formulas in double, of a loss whose scale is 1. Gradients start at 0.
struct Expected {
  Expected(const Case& of, const std::vector<float>& scores, const std::vector<std::int32_t>& hits)
      : p(scores.size()), losses(static_cast<size_t>(of.shape.samples)), gradients(scores.size()) {
    const auto classes = static_cast<size_t>(of.shape.classes), positions = static_cast<size_t>(of.shape.positions);
    for (size_t row = 0; row < hits.size(); ++row) {
      double sum = 0;
      for (size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(scores[row * classes + c]));
      for (size_t c = 0; c < classes; ++c) {
        const size_t i = row * classes + c;
        const double target =
            (c == static_cast<size_t>(hits[row]) ? 1 - of.smoothing : 0) + of.smoothing / static_cast<double>(classes);
        p[i] = std::exp(static_cast<double>(scores[i])) / sum;
        losses[row / positions] += target * (std::log(sum) - scores[i]) / static_cast<double>(positions);
        gradients[i] = p[i] - target;
      }
    }
  }

  std::vector<double> p, losses, gradients;
};

class ClassifierLoss : public ::testing::TestWithParam<Case> {};

TEST_P(ClassifierLoss, computes_the_formulas) {
  const auto [shape, smoothing] = GetParam();
  const auto rows = static_cast<size_t>(shape.rows()), count = rows * static_cast<size_t>(shape.classes);
  const std::vector<float> inputs = numbers(count, 1), start = numbers(count, 2);
  std::vector<std::int32_t> hits(rows);
  for (size_t i = 0; i < rows; ++i) {
    hits[i] = static_cast<std::int32_t>(core::derive(3, i) % static_cast<std::uint64_t>(shape.classes));
  }
  const Expected expected(GetParam(), inputs, hits);
  const auto smooth = static_cast<float>(smoothing);
  in_every_order([&] {
    for (const bool accumulate : {false, true}) {
      Guarded<float> scores(inputs), p(count), losses(static_cast<size_t>(shape.samples));
      Guarded<std::int32_t> classes(hits);
      Guarded<double> scratch(softmax_cross_entropy_scratch(shape) / sizeof(double));
      expect_success(softmax_cross_entropy_forward(nullptr, shape, scores.data(), classes.data(), smooth, p.data(),
                                                   losses.data(), scratch.data()));
      expect_close(p.values(), expected.p, 1e-6);
      expect_close(losses.values(), expected.losses, 1e-6);

      Guarded<float> dscores(accumulate ? start : std::vector<float>(count, NAN));
      expect_success(softmax_cross_entropy_backward(nullptr, shape, p.data(), classes.data(), smooth, 2, dscores.data(),
                                                    accumulate));
      std::vector<double> sums(count);
      for (size_t i = 0; i < count; ++i) {
        sums[i] = 2 * expected.gradients[i] + (accumulate ? static_cast<double>(start[i]) : 0);
      }
      expect_close(dscores.values(), sums, 1e-6);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, ClassifierLoss,
                         ::testing::Values(Case{{1, 1, 1}, 0}, Case{{3, 1, 10}, 0}, Case{{3, 1, 10}, 0.1},
                                           Case{{5, 33, 31}, 0}, Case{{2, 4, 65}, 0.3}, Case{{7, 1, 1000}, 0.1}));

TEST(Losses, of_scores_that_are_large_do_not_overflow) {
  const ClassifierShape shape{.samples = 2, .positions = 1, .classes = 3};
  Guarded<float> scores(std::vector<float>{1e4F, 0, -1e4F, 1e4F, 0, -1e4F}), p(6), losses(2);
  Guarded<std::int32_t> classes(std::vector<std::int32_t>{0, 2});
  Guarded<double> scratch(2);
  expect_success(softmax_cross_entropy_forward(nullptr, shape, scores.data(), classes.data(), 0, p.data(),
                                               losses.data(), scratch.data()));
  expect_close(losses.values(), {0, 2e4}, 1e-6);
}

TEST(Losses, of_a_nan_or_of_a_class_that_is_none_are_nan) {
  const ClassifierShape shape{.samples = 4, .positions = 1, .classes = 2};
  Guarded<float> scores(std::vector<float>{0, 0, 0, NAN, 0, 0, 0, 0}), p(8), losses(4);
  Guarded<std::int32_t> classes(std::vector<std::int32_t>{1, 0, 2, -1});
  Guarded<double> scratch(4);
  expect_success(softmax_cross_entropy_forward(nullptr, shape, scores.data(), classes.data(), 0, p.data(),
                                               losses.data(), scratch.data()));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_close(losses.values(), {std::log(2.0), nan, nan, nan}, 1e-6);
}

TEST(Losses, mean_squared_error_computes_the_formulas) {
  in_every_order([] {
    for (const size_t each : {1, 3, 32, 33, 129}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(each);
        constexpr size_t kSamples = 5;
        const std::vector<float> start = numbers(kSamples * each, 3);
        Guarded<float> x(numbers(kSamples * each, 1)), target(numbers(kSamples * each, 2)), losses(kSamples);
        Guarded<float> dx(accumulate ? start : std::vector<float>(kSamples * each, NAN));
        expect_success(mean_squared_error_forward(nullptr, x.data(), target.data(), losses.data(), kSamples,
                                                  static_cast<std::int64_t>(each)));
        expect_success(mean_squared_error_backward(nullptr, x.data(), target.data(), 3, dx.data(),
                                                   static_cast<std::int64_t>(kSamples * each), accumulate));
        std::vector<double> means(kSamples), gradients(kSamples * each);
        for (size_t i = 0; i < kSamples * each; ++i) {
          const double difference = static_cast<double>(x.data()[i]) - static_cast<double>(target.data()[i]);
          means[i / each] += difference * difference / static_cast<double>(each);
          gradients[i] = 3 * difference + (accumulate ? static_cast<double>(start[i]) : 0);
        }
        expect_close(losses.values(), means, 1e-6);
        expect_close(dx.values(), gradients, 1e-6);
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::trainer::cuda::losses_test
