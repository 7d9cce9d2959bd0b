// Products of row-major matrices, on the fake of cuBLASLt, and how strict that is.
#include "trainer/backend/cuda/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "trainer/backend/cuda/device_memory.h"
#include "trainer/backend/cuda/device_queue.h"
#include "trainer/core/random.h"
#include "trainer/cuda/runtime.h"

namespace lockstep::trainer::cuda {
namespace {

class Products : public ::testing::Test {
 protected:
  Products() {
    EXPECT_EQ(blas_.create(&place_.handle), BlasStatus::kSuccess);
    place_.workspace = workspace_->data();
    place_.workspace_bytes = workspace_->bytes();
  }
  ~Products() override { blas_.destroy(place_.handle); }

  template <typename Element>
  std::unique_ptr<DeviceMemory> put(const std::vector<Element>& values) {
    auto memory = DeviceMemory::allocate(*queue_, values.size() * sizeof(Element)).value();
    queue_->write(memory->data(), values.data(), memory->bytes());
    EXPECT_TRUE(queue_->wait(queue_->mark()).ok());
    return memory;
  }
  template <typename Element = float>
  std::vector<Element> get(const DeviceMemory& memory) {
    std::vector<Element> values(memory.bytes() / sizeof(Element));
    queue_->read(values.data(), memory.data(), memory.bytes());
    EXPECT_TRUE(queue_->wait(queue_->mark()).ok());
    return values;
  }

  std::unique_ptr<DeviceQueue> queue_ = DeviceQueue::create(*load_cuda_runtime(FAKE_CUDA_LIBRARY).value(), 0).value();
  const Blas blas_ = open_blas(FAKE_CUBLASLT_LIBRARY).value();
  std::unique_ptr<DeviceMemory> workspace_ = DeviceMemory::allocate(*queue_, size_t{1} << 20).value();
  BlasPlace place_{.blas = blas_};
};

std::vector<float> reals(std::uint64_t key, std::int64_t count) {
  std::vector<float> values;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    values.push_back(static_cast<float>(core::normal(key, i)));
  }
  return values;
}

const float* floats(const DeviceMemory& memory) {
  return reinterpret_cast<const float*>(memory.data());
}

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
      // Half a unit in the last place of 8 bits.
      const double tolerance = rounds ? 0x1.0p-8 * std::exp2(std::floor(std::log2(std::fabs(expected)))) * 1.001 : 1e-5;
      EXPECT_NEAR(rounds ? number(halves, i) : static_cast<double>(whole[at]), expected, tolerance) << i;
    }
  }
}

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

TEST_F(Products, of_a_float32_and_a_bfloat16_result_do_not_exist) {
  const auto product = Matmul::plan(
      place_, {.m = 2, .n = 2, .k = 2, .a_stride = 2, .b_stride = 2, .c_stride = 2, .result = BlasType::kBfloat16});
  ASSERT_FALSE(product.ok());
  EXPECT_EQ(product.error().message,
            "cuBLASLt cannot plan the product of (2, 2) and (2, 2): no algorithm computes this");
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

TEST_F(Products, a_product_that_the_library_cannot_compute_is_one_sentence) {
  const auto product = Matmul::plan(place_, {.m = 2, .n = 3, .k = 4, .a_stride = 3, .b_stride = 3, .c_stride = 3});
  ASSERT_FALSE(product.ok());
  EXPECT_EQ(product.error().message,
            "cuBLASLt cannot plan the product of (2, 4) and (4, 3): an argument has a value that is not valid");
}

}  // namespace
}  // namespace lockstep::trainer::cuda
