#include "trainer/backend/cuda/kernels/device.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::device_test {
namespace {

TEST(Comparison, an_infinity_is_close_to_itself_alone) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  testing::expect_close({static_cast<float>(kInfinity)}, {kInfinity}, 1e-6);
  EXPECT_FATAL_FAILURE(testing::expect_close({1}, {kInfinity}, 1e-6), "element 0 of 1 is 1, expected inf");
  EXPECT_FATAL_FAILURE(testing::expect_close({-HUGE_VALF}, {HUGE_VAL}, 1e-6), "expected inf");
  EXPECT_FATAL_FAILURE(testing::expect_close({HUGE_VALF}, {1}, 1e-6), "expected 1");
}

TEST(Device, a_place_is_divided_into_row_and_column_whatever_its_size) {
  constexpr std::int64_t k32 = std::int64_t{1} << 32, kLast = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t width : {std::int64_t{1}, std::int64_t{7}, k32 - 1, k32, k32 + 1}) {
    for (const std::int64_t i : {std::int64_t{0}, std::int64_t{6}, std::int64_t{7}, k32 - 1, k32, k32 + 8, kLast}) {
      const auto [row, column] = row_and_column(i, width);
      EXPECT_EQ(row, i / width) << i << " / " << width;
      EXPECT_EQ(column, i % width) << i << " / " << width;
    }
  }
}

__global__ void reduce(const float* x, float* sums, float* largest) {
  sums[threadIdx.x] = warp_sum(x[threadIdx.x]);
  largest[threadIdx.x] = warp_max(x[threadIdx.x]);
}

TEST(Device, a_warp_gives_each_lane_its_sum_and_its_largest) {
  testing::in_every_order([] {
    std::vector<float> values(64);
    for (size_t i = 0; i < 64; ++i) values[i] = -static_cast<float>((i * 37) % 64);
    testing::Guarded<float> x(values), sums(64), largest(64);
    testing::expect_success(launch(reduce, 1, 64, 0, nullptr, x.data(), sums.data(), largest.data()));
    for (size_t warp = 0; warp < 2; ++warp) {
      float sum = 0, most = values[warp * 32];
      for (size_t i = warp * 32; i < warp * 32 + 32; ++i) {
        sum += values[i];
        most = std::max(most, values[i]);
      }
      for (size_t i = warp * 32; i < warp * 32 + 32; ++i) {
        EXPECT_EQ(sums.values()[i], sum);
        EXPECT_EQ(largest.values()[i], most);
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::trainer::cuda::device_test
