// What matmul.h promises of products of row-major matrices, on the cuBLASLt under test.
#include "trainer/backend/cuda/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "tests/trainer/backend/cuda/libraries.h"

namespace lockstep::trainer::cuda::matmul_test {
namespace {

TEST_F(Products, are_those_of_three_loops_for_every_form_stride_and_bias) {
  constexpr std::int64_t kGap = 3;  // between rows, which must stay as it is
  const std::int64_t m = 5, n = 7, k = 6;
  for (const As a_as : {As::kIs, As::kTransposed}) {
    for (const As b_as : {As::kIs, As::kTransposed}) {
      for (const bool adds : {false, true}) {
        for (const bool biased : {false, true}) {
          SCOPED_TRACE(std::string(a_as == As::kIs ? "A " : "At ") + (b_as == As::kIs ? "B " : "Bt ") +
                       (adds ? "adds " : "") + (biased ? "bias" : ""));
          ProductShape shape{.a_as = a_as, .b_as = b_as, .m = m, .n = n, .k = k};
          shape.a_stride = (a_as == As::kIs ? k : m) + kGap;
          shape.b_stride = (b_as == As::kIs ? n : k) + kGap;
          shape.c_stride = n + kGap;
          const std::vector<float> a = reals(1, (a_as == As::kIs ? m : k) * shape.a_stride);
          const std::vector<float> b = reals(2, (b_as == As::kIs ? k : n) * shape.b_stride);
          const std::vector<float> bias = reals(3, n);
          std::vector<float> c = reals(4, m * shape.c_stride);
          if (!adds) {
            for (std::int64_t i = 0; i < m; ++i) {
              for (std::int64_t j = 0; j < n; ++j) c[static_cast<size_t>(i * shape.c_stride + j)] = NAN;
            }
          }
          auto a_memory = put(a), b_memory = put(b), bias_memory = put(bias), c_memory = put(c);
          if (biased) shape.bias = floats(*bias_memory);
          auto product = Matmul::plan(place_, shape);
          ASSERT_TRUE(product.ok()) << product.error().message;
          ASSERT_EQ(product->run(floats(*a_memory), floats(*b_memory), adds, reinterpret_cast<float*>(c_memory->data()),
                                 queue_->stream()),
                    BlasStatus::kSuccess);
          const std::vector<float> got = get(*c_memory);
          const auto at = [](const std::vector<float>& of, As as, std::int64_t stride, std::int64_t i, std::int64_t j) {
            return static_cast<double>(of[static_cast<size_t>(as == As::kIs ? i * stride + j : j * stride + i)]);
          };
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < shape.c_stride; ++j) {
              const auto place = static_cast<size_t>(i * shape.c_stride + j);
              if (j >= n) {
                EXPECT_EQ(got[place], c[place]) << "the gap in row " << i;
                continue;
              }
              double expected = (adds ? c[place] : 0.0) + (biased ? bias[static_cast<size_t>(j)] : 0.0);
              for (std::int64_t l = 0; l < k; ++l) {
                expected += at(a, a_as, shape.a_stride, i, l) * at(b, b_as, shape.b_stride, l, j);
              }
              EXPECT_NEAR(got[place], expected, 1e-5) << i << ", " << j;
            }
          }
        }
      }
    }
  }
}

std::vector<std::uint16_t> rounded(const std::vector<float>& values) {
  std::vector<std::uint16_t> all;
  for (const float value : values) all.push_back(fake::to_bfloat16(value));
  return all;
}

TEST_F(Products, of_bfloat16_are_rounded_once_to_the_type_of_the_result) {
  const std::int64_t m = 5, n = 7, k = 40;
  const auto a = rounded(reals(1, m * k)), b = rounded(reals(2, n * k));
  const auto old = reals(4, m * n), bias = reals(3, n);
  const auto number = [](const std::vector<std::uint16_t>& of, std::int64_t i) {
    return static_cast<double>(fake::from_bfloat16(of[static_cast<size_t>(i)]));
  };
  auto a_memory = put(a), b_memory = put(b), old_memory = put(old);
  auto rounded_old = put(rounded(old)), rounded_bias = put(rounded(bias)), float_bias = put(bias);
  for (const BlasType result : {BlasType::kFloat32, BlasType::kBfloat16}) {
    const bool rounds = result == BlasType::kBfloat16;
    DeviceMemory& memory = rounds ? *rounded_old : *old_memory;
    const auto product = Matmul::plan(place_, {.b_as = As::kTransposed,
                                               .m = m,
                                               .n = n,
                                               .k = k,
                                               .a_stride = k,
                                               .b_stride = k,
                                               .c_stride = n,
                                               .bias = rounds ? rounded_bias->data() : float_bias->data(),
                                               .operands = BlasType::kBfloat16,
                                               .result = result});
    ASSERT_TRUE(product.ok()) << product.error().message;
    ASSERT_EQ(product->run(a_memory->data(), b_memory->data(), true, memory.data(), queue_->stream()),
              BlasStatus::kSuccess);
    const std::vector<float> whole = rounds ? std::vector<float>() : get(memory);
    const auto halves = rounds ? get<std::uint16_t>(memory) : std::vector<std::uint16_t>();
    for (std::int64_t i = 0; i < m * n; ++i) {
      const auto at = static_cast<size_t>(i), column = static_cast<size_t>(i % n);
      double expected = rounds ? number(rounded(old), i) + number(rounded(bias), i % n)
                               : static_cast<double>(old[at]) + static_cast<double>(bias[column]);
      for (std::int64_t l = 0; l < k; ++l) expected += number(a, i / n * k + l) * number(b, i % n * k + l);
      // Half a unit in the last place of 8 bits, and what float32 loses.
      const double lost = trainer::testing::sum_tolerance(k);
      const double tolerance = rounds ? 0x1.0p-8 * std::exp2(std::floor(std::log2(std::fabs(expected)))) * 1.001 + lost
                                      : std::max(1e-5, lost);
      EXPECT_NEAR(rounds ? number(halves, i) : static_cast<double>(whole[at]), expected, tolerance) << i;
    }
  }
}

TEST_F(Products, of_a_float32_and_a_bfloat16_result_do_not_exist) {
  const auto product = Matmul::plan(
      place_, {.m = 2, .n = 2, .k = 2, .a_stride = 2, .b_stride = 2, .c_stride = 2, .result = BlasType::kBfloat16});
  ASSERT_FALSE(product.ok());
  EXPECT_THAT(product.error().message,
              ::testing::StartsWith("cuBLASLt cannot plan the product of (2, 2) and (2, 2): "));
}

TEST_F(Products, a_product_that_the_library_cannot_compute_is_one_sentence) {
  const auto product = Matmul::plan(place_, {.m = 2, .n = 3, .k = 4, .a_stride = 3, .b_stride = 3, .c_stride = 3});
  ASSERT_FALSE(product.ok());
  EXPECT_THAT(product.error().message,
              ::testing::StartsWith("cuBLASLt cannot plan the product of (2, 4) and (4, 3): "));
}

}  // namespace
}  // namespace lockstep::trainer::cuda::matmul_test
