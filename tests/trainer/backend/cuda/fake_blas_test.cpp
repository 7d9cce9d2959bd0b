// How strict the fake of cuBLASLt is, and what it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "tests/trainer/backend/cuda/libraries.h"

namespace lockstep::trainer::cuda::fake_blas_test {
namespace {

TEST_F(Products, round_their_operands_to_tf32_only_if_asked) {
  const std::int64_t m = 5, n = 7, k = 40;
  const auto a = reals(1, m * k), b = reals(2, n * k), bias = reals(3, n), old = reals(4, m * n);
  auto a_memory = put(a), b_memory = put(b), bias_memory = put(bias);
  const auto largest_error = [&](const std::vector<float>& got, bool rounded) {
    const auto operand = [rounded](float value) { return static_cast<double>(rounded ? fake::to_tf32(value) : value); };
    double largest = 0;
    for (std::int64_t i = 0; i < m * n; ++i) {
      const auto at = static_cast<size_t>(i), row = at / n * k, column = at % n * k;
      double expected = static_cast<double>(old[at]) + static_cast<double>(bias[at % n]);
      for (size_t l = 0; l < static_cast<size_t>(k); ++l) expected += operand(a[row + l]) * operand(b[column + l]);
      largest = std::max(largest, std::fabs(static_cast<double>(got[at]) - expected));
    }
    return largest;
  };
  for (const bool tf32 : {false, true}) {
    auto result = put(old);
    const auto product = Matmul::plan(place_, {.b_as = As::kTransposed,
                                               .m = m,
                                               .n = n,
                                               .k = k,
                                               .a_stride = k,
                                               .b_stride = k,
                                               .c_stride = n,
                                               .bias = bias_memory->data(),
                                               .tf32 = tf32});
    ASSERT_TRUE(product.ok()) << product.error().message;
    ASSERT_EQ(product->run(a_memory->data(), b_memory->data(), true, result->data(), queue_->stream()),
              BlasStatus::kSuccess);
    const std::vector<float> got = get(*result);
    EXPECT_LT(largest_error(got, tf32), 2e-6) << tf32;
    EXPECT_GT(largest_error(got, !tf32), 1e-4) << tf32;
  }
}

TEST_F(Products, of_bfloat16_in_tf32_do_not_exist) {
  const auto product = Matmul::plan(place_, {.m = 2,
                                             .n = 2,
                                             .k = 2,
                                             .a_stride = 2,
                                             .b_stride = 2,
                                             .c_stride = 2,
                                             .operands = BlasType::kBfloat16,
                                             .tf32 = true});
  ASSERT_FALSE(product.ok());
  EXPECT_EQ(product.error().message,
            "cuBLASLt cannot plan the product of (2, 2) and (2, 2): no algorithm computes this");
}

// What a program may get wrong between a plan and its product, and what the library says of it.
TEST_F(Products, the_fake_refuses_what_does_not_fit) {
  BlasProduct* product = nullptr;
  ASSERT_EQ(blas_.product_create(&product, BlasCompute::kFloat32, BlasType::kFloat32), BlasStatus::kSuccess);
  const auto layout = [&](std::uint64_t rows, std::uint64_t columns, std::int64_t stride) {
    BlasLayout* made = nullptr;
    EXPECT_EQ(blas_.layout_create(&made, BlasType::kFloat32, rows, columns, stride), BlasStatus::kSuccess);
    return made;
  };
  BlasPreference* preference = nullptr;
  ASSERT_EQ(blas_.preference_create(&preference), BlasStatus::kSuccess);
  const std::uint64_t most = size_t{1} << 20;
  ASSERT_EQ(blas_.preference_set(preference, BlasPreferenceAttribute::kMaxWorkspaceBytes, &most, sizeof most),
            BlasStatus::kSuccess);
  EXPECT_EQ(blas_.preference_set(preference, BlasPreferenceAttribute::kMaxWorkspaceBytes, &most, 4),
            BlasStatus::kInvalidValue);

  BlasLayout *a = layout(4, 6, 4), *b = layout(6, 8, 6), *c = layout(4, 8, 4);
  BlasHeuristic best{};
  int found = 0;
  const auto plan = [&](BlasLayout* left, BlasLayout* right, BlasLayout* result) {
    return blas_.get_heuristic(place_.handle, product, left, right, result, result, preference, 1, &best, &found);
  };
  BlasLayout *short_stride = layout(4, 6, 3), *wrong_inner = layout(5, 8, 5);
  EXPECT_EQ(plan(short_stride, b, c), BlasStatus::kInvalidValue) << "a stride shorter than a column";
  EXPECT_EQ(plan(a, wrong_inner, c), BlasStatus::kInvalidValue) << "inner sizes that differ";
  EXPECT_EQ(plan(b, a, c), BlasStatus::kInvalidValue) << "operands in the wrong order";
  ASSERT_EQ(plan(a, b, c), BlasStatus::kSuccess);

  auto memory = put(reals(1, 4096));
  const float one = 1, zero = 0;
  const auto run = [&](BlasLayout* left, size_t offset, void* workspace, size_t bytes) {
    return blas_.matmul(place_.handle, product, &one, floats(*memory) + offset, left, floats(*memory), b, &zero,
                        floats(*memory) + 1024, c, memory->data() + 4096, c, &best.algorithm, workspace, bytes,
                        queue_->stream());
  };
  EXPECT_EQ(run(a, 0, place_.workspace, place_.workspace_bytes), BlasStatus::kSuccess);
  EXPECT_EQ(run(a, 0, place_.workspace, 1024), BlasStatus::kInvalidValue) << "too little workspace";
  EXPECT_EQ(run(a, 16, place_.workspace, place_.workspace_bytes), BlasStatus::kInvalidValue)
      << "an address that is less aligned than the preference says, which is 256 bytes unless it is set";
  BlasLayout* other_stride = layout(4, 6, 5);
  EXPECT_EQ(run(other_stride, 0, place_.workspace, place_.workspace_bytes), BlasStatus::kInvalidValue)
      << "an algorithm of another product";
  const auto transpose = BlasOperation::kTranspose;
  blas_.product_set(product, BlasProductAttribute::kTransposeA, &transpose, sizeof transpose);
  EXPECT_EQ(run(a, 0, place_.workspace, place_.workspace_bytes), BlasStatus::kInvalidValue) << "another form";

  EXPECT_TRUE(queue_->wait(queue_->mark()).ok());
  for (BlasLayout* made : {a, b, c, short_stride, wrong_inner, other_stride}) blas_.layout_destroy(made);
  blas_.preference_destroy(preference);
  blas_.product_destroy(product);
}

TEST_F(Products, that_no_algorithm_of_the_fake_computes_are_one_sentence) {
  const auto product = Matmul::plan(
      place_, {.m = 2, .n = 2, .k = 2, .a_stride = 2, .b_stride = 2, .c_stride = 2, .result = BlasType::kBfloat16});
  ASSERT_FALSE(product.ok());
  EXPECT_EQ(product.error().message,
            "cuBLASLt cannot plan the product of (2, 2) and (2, 2): no algorithm computes this");
}

TEST_F(Products, that_the_fake_finds_wrong_are_one_sentence) {
  const auto product = Matmul::plan(place_, {.m = 2, .n = 3, .k = 4, .a_stride = 3, .b_stride = 3, .c_stride = 3});
  ASSERT_FALSE(product.ok());
  EXPECT_EQ(product.error().message,
            "cuBLASLt cannot plan the product of (2, 4) and (4, 3): an argument has a value that is not valid");
}

}  // namespace
}  // namespace lockstep::trainer::cuda::fake_blas_test
