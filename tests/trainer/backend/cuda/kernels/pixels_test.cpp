#include "trainer/backend/cuda/kernels/pixels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"
#include "trainer/core/pixels.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::cuda::pixels_test {
namespace {

using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;

TEST(Pixels, stand_for_the_bits_that_the_host_would_write) {
  const std::vector<float> table = testing::numbers(core::kColours * 256, 7);
  core::PixelValues values;
  std::memcpy(values.data(), table.data(), sizeof values);
  for (const size_t count : {3, 255, 256, 257, 768, 3000}) {
    SCOPED_TRACE(count);
    std::vector<std::uint32_t> words(count / 4 + 1);
    for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(core::derive(count, i));
    std::vector<float> expected(count);
    core::spread_pixels(reinterpret_cast<const std::uint8_t*>(words.data()), count, values, core::ElementType::kFloat32,
                        expected.data(), 1);
    in_every_order([&] {
      Guarded<std::uint32_t> from(words);
      Guarded<float> of(table), to(count);
      expect_success(spread_pixels(nullptr, reinterpret_cast<const std::uint8_t*>(from.data()), of.data(), to.data(),
                                   static_cast<std::int64_t>(count)));
      EXPECT_EQ(to.values(), expected);
    });
  }
}

TEST(Pixels, none_are_a_success_without_a_launch) {
  expect_success(spread_pixels(nullptr, nullptr, nullptr, nullptr, 0));
}

}  // namespace
}  // namespace lockstep::trainer::cuda::pixels_test
