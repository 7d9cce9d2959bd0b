#include "trainer/core/fixed_point.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/trainer/core/threads.h"
#include "trainer/core/norm.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::core {
namespace {

std::vector<float> numbers(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(normal(1, i));
  return values;
}

TEST(FixedPoint, rounding_and_back_keeps_float32_and_clears_the_source) {
  std::vector<float> values = numbers(10000), before = values, after(values.size());
  std::vector<std::int64_t> sums(values.size());
  RoundingFlags flags;
  round_and_clear(values.data(), ElementType::kFloat32, values.size(), 36, false, sums.data(), 1, flags);
  EXPECT_EQ(flags.overflow + flags.not_finite, 0);
  EXPECT_EQ(values, std::vector<float>(values.size(), 0.0F));
  std::uint64_t largest =
      unround(sums.data(), sums.size(), 36, after.data(), ElementType::kFloat32, testing::thread_counts().back());
  for (size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], before[i], 0x1p-36);
  EXPECT_LT(largest, std::uint64_t{6} << 36);
}

TEST(FixedPoint, sums_are_bitwise_identical_in_any_order) {
  std::vector<std::vector<float>> parts;
  for (std::uint64_t k = 0; k < 5; ++k) {
    parts.push_back(numbers(5000));
    for (float& x : parts.back()) x *= static_cast<float>(uniform(k, 1));
  }
  auto sum = [&](std::vector<size_t> order) {
    std::vector<std::int64_t> sums(5000);
    bool add = false;
    for (size_t k : order) {
      std::vector<float> copy = parts[k];
      RoundingFlags flags;
      round_and_clear(copy.data(), ElementType::kFloat32, copy.size(), 40, add, sums.data(), 1, flags);
      add = true;
    }
    return sums;
  };
  EXPECT_EQ(sum({0, 1, 2, 3, 4}), sum({3, 1, 4, 0, 2}));
}

TEST(FixedPoint, a_number_that_does_not_fit_is_flagged_and_counts_as_zero) {
  double values[4] = {1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 0x1p40};
  std::int64_t sums[4];
  RoundingFlags flags;
  round_into(values, 4, 10, false, sums, flags);
  EXPECT_EQ(flags.not_finite, 1);
  EXPECT_EQ(flags.overflow, 1);
  EXPECT_EQ(sums[0], 1024);
  EXPECT_EQ(sums[1], 0);
  EXPECT_EQ(sums[2], 0);
  EXPECT_EQ(sums[3], 0);
}

TEST(FixedPoint, the_next_exponent_aims_the_largest_sum_at_the_target) {
  EXPECT_EQ(next_exponent(30, std::uint64_t{1} << 20), 30 + kTargetBits - 21);
  EXPECT_EQ(next_exponent(30, (std::uint64_t{1} << 45) - 1), 30 + kTargetBits - 45);
  EXPECT_EQ(next_exponent(30, 0), 30) << "a sum of zero says nothing";
}

TEST(NormTree, is_bitwise_identical_for_every_number_of_threads_and_is_right) {
  std::vector<float> values = numbers(50001);
  NormTree tree;
  double one = tree.norm(values.data(), values.size(), ElementType::kFloat32, 1);
  for (int threads : testing::thread_counts()) {
    EXPECT_EQ(one, tree.norm(values.data(), values.size(), ElementType::kFloat32, threads));
  }
  EXPECT_EQ(tree.norm(values.data(), 5000, ElementType::kFloat32, 1),
            NormTree().norm(values.data(), 5000, ElementType::kFloat32, 1))
      << "a tree for more elements";
  double squares = 0;
  for (float x : values) squares += static_cast<double>(x) * static_cast<double>(x);
  EXPECT_NEAR(one, std::sqrt(squares), 1e-9 * one);
  values[77] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(tree.norm(values.data(), values.size(), ElementType::kFloat32, 1)));
}

TEST(Random, normal_numbers_have_mean_zero_and_variance_one) {
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    double x = normal(42, i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
}

}  // namespace
}  // namespace lockstep::trainer::core
