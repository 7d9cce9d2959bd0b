// The arithmetic over arenas, whose bits must be the host's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"
#include "trainer/backend/cuda/kernels/fixed_point.h"
#include "trainer/backend/cuda/kernels/norm.h"
#include "trainer/core/fixed_point.h"
#include "trainer/core/norm.h"

namespace lockstep::trainer::cuda::arenas_test {
namespace {

using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Rounding {
  const char* what;
  std::vector<float> values;
  int exponent;
};

std::vector<Rounding> roundings() {
  std::vector<float> large = numbers(700), not_finite = numbers(300);
  large[500] = 0x1p40F;
  not_finite[7] = kNan;
  not_finite[290] = -kInfinity;
  return {{"one", numbers(1), 30},
          {"normal numbers", numbers(4097), 38},
          {"halves, which are ties", {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 0.0F, -0.0F}, 0},
          {"numbers below the smallest step", {1e-38F, -1e-40F, 0x1p-149F}, 60},
          {"the limit and just below", {0x1p50F, -0x1p50F, 0x1.fffffep49F, -0x1.fffffep49F}, 0},
          {"one too large", large, 20},
          {"a NaN and an infinity", not_finite, 20},
          {"a small exponent", numbers(257), -core::kMaxExponent},
          {"a large exponent", numbers(257), core::kMaxExponent}};
}

TEST(FixedPointKernels, round_and_clear_has_the_bits_of_the_host) {
  in_every_order([] {
    for (const Rounding& rounding : roundings()) {
      for (const bool add : {false, true}) {
        SCOPED_TRACE(rounding.what);
        const size_t count = rounding.values.size();
        std::vector<float> host = rounding.values;
        std::vector<std::int64_t> host_sums(count, -3);
        core::RoundingFlags host_flags;
        core::round_and_clear(host.data(), core::ElementType::kFloat32, count, rounding.exponent, add, host_sums.data(),
                              1, host_flags);

        Guarded<float> values(rounding.values);
        Guarded<std::int64_t> sums(std::vector<std::int64_t>(count, -3)), flags(std::vector<std::int64_t>{0, 0});
        expect_success(round_and_clear(nullptr, values.data(), sums.data(), static_cast<std::int64_t>(count),
                                       rounding.exponent, add, flags.data()));
        EXPECT_EQ(sums.values(), host_sums);
        EXPECT_EQ(values.values(), host);
        EXPECT_EQ(flags.values(), (std::vector<std::int64_t>{host_flags.overflow, host_flags.not_finite}));
      }
    }
  });
}

TEST(FixedPointKernels, flags_gather) {
  Guarded<std::int64_t> flags(std::vector<std::int64_t>{1, 0}), sums(1);
  Guarded<float> values(std::vector<float>{kNan});
  expect_success(round_and_clear(nullptr, values.data(), sums.data(), 1, 0, false, flags.data()));
  EXPECT_EQ(flags.values(), (std::vector<std::int64_t>{1, 1}));
}

TEST(FixedPointKernels, unround_has_the_bits_of_the_host) {
  in_every_order([] {
    for (const size_t count : {1, 31, 2047, 2048, 2049, 5000}) {
      for (const int exponent : {38, -core::kMaxExponent, core::kMaxExponent}) {
        SCOPED_TRACE(count);
        std::vector<std::int64_t> sums(count);
        for (size_t i = 0; i < count; ++i) sums[i] = static_cast<std::int64_t>(core::derive(3, i)) >> (i % 40);
        std::vector<float> expected(count);
        const std::uint64_t host =
            core::unround(sums.data(), count, exponent, expected.data(), core::ElementType::kFloat32, 1);

        Guarded<std::int64_t> from(sums);
        Guarded<float> values(count);
        Guarded<std::uint64_t> largest(std::vector<std::uint64_t>{0});
        expect_success(
            unround(nullptr, from.data(), values.data(), static_cast<std::int64_t>(count), exponent, largest.data()));
        EXPECT_EQ(values.values(), expected);
        EXPECT_EQ(largest.values()[0], host);
      }
    }
  });
}

double norm_of(const std::vector<float>& values) {
  Guarded<float> from(values);
  Guarded<double> to(1);
  Guarded<double> scratch(norm_scratch(static_cast<std::int64_t>(values.size())) / sizeof(double));
  expect_success(norm(nullptr, from.data(), static_cast<std::int64_t>(values.size()), to.data(), scratch.data()));
  return to.values()[0];
}

TEST(NormKernels, have_the_bits_of_the_host) {
  in_every_order([] {
    for (const size_t count : {1, 7, 9, 4095, 4096, 4097, 20000, 50001}) {
      SCOPED_TRACE(count);
      const std::vector<float> values = numbers(count, count);
      core::NormTree tree;
      EXPECT_EQ(norm_of(values), tree.norm(values.data(), count, core::ElementType::kFloat32, 1));
    }
  });
}

TEST(NormKernels, a_tree_deeper_than_one_block_of_threads_has_the_bits_of_the_host) {
  const std::vector<float> values = numbers(4096 * 1100 + 5);
  core::NormTree tree;
  EXPECT_EQ(norm_of(values), tree.norm(values.data(), values.size(), core::ElementType::kFloat32, 1));
}

TEST(NormKernels, of_nothing_is_zero_and_of_a_nan_is_a_nan) {
  EXPECT_EQ(norm_of({}), 0);
  EXPECT_TRUE(std::isnan(norm_of({1, kNan, 2})));
}

}  // namespace
}  // namespace lockstep::trainer::cuda::arenas_test
