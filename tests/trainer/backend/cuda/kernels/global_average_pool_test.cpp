#include "trainer/backend/cuda/kernels/global_average_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"

namespace lockstep::trainer::cuda::global_average_pool_test {
namespace {

using testing::expect_close;
using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;

struct Size {
  size_t samples, pixels, channels;
};
constexpr Size kSizes[] = {{1, 1, 1}, {2, 7, 3}, {1, 8, 32}, {3, 9, 33}, {2, 49, 20}, {1, 130, 2}};

TEST(GlobalAveragePool, has_the_means_of_the_channels_and_gives_each_pixel_its_share) {
  for (const auto [samples, pixels, channels] : kSizes) {
    SCOPED_TRACE(pixels * 100 + channels);
    const auto n = static_cast<std::int64_t>(samples), p = static_cast<std::int64_t>(pixels),
               c = static_cast<std::int64_t>(channels);
    const size_t count = samples * pixels * channels;
    const std::vector<float> inputs = numbers(count, 1), gradients = numbers(samples * channels, 2),
                             start = numbers(count, 3);
    std::vector<double> means(samples * channels), shares(count);
    for (size_t i = 0; i < count; ++i) {
      const size_t of = i / (pixels * channels) * channels + i % channels;
      means[of] += static_cast<double>(inputs[i]) / static_cast<double>(pixels);
      shares[i] = static_cast<double>(gradients[of]) / static_cast<double>(pixels);
    }
    std::vector<float> first;
    in_every_order([&] {
      Guarded<float> x(inputs), y(samples * channels);
      expect_success(global_average_pool_forward(nullptr, x.data(), y.data(), n, p, c));
      expect_close(y.values(), means, 1e-6);
      if (first.empty()) first = y.values();
      EXPECT_EQ(y.values(), first) << "other bits than in the first order";
      for (const bool accumulate : {false, true}) {
        std::vector<double> expected = shares;
        for (size_t i = 0; i < count; ++i) expected[i] += accumulate ? static_cast<double>(start[i]) : 0;
        Guarded<float> dy(gradients), dx(accumulate ? start : std::vector<float>(count, NAN));
        expect_success(global_average_pool_backward(nullptr, dy.data(), dx.data(), n, p, c, accumulate));
        expect_close(dx.values(), expected, 1e-6);
      }
    });
  }
}

TEST(GlobalAveragePool, keeps_a_nan_to_its_sample_and_channel) {
  std::vector<float> inputs(2 * 9 * 3, 1);
  inputs[13] = NAN;  // of sample 0, channel 1
  Guarded<float> y(6);
  // Without guards around `inputs`: AddressSanitizer sees a thread of no channel that reads beyond them.
  expect_success(global_average_pool_forward<float>(nullptr, inputs.data(), y.data(), 2, 9, 3));
  expect_close(y.values(), {1, NAN, 1, 1, 1, 1}, 0);
}

TEST(GlobalAveragePool, no_samples_are_a_success_without_a_launch) {
  expect_success(global_average_pool_forward<float>(nullptr, nullptr, nullptr, 0, 9, 3));
  expect_success(global_average_pool_backward<float>(nullptr, nullptr, nullptr, 0, 9, 3, false));
}

}  // namespace
}  // namespace lockstep::trainer::cuda::global_average_pool_test
