#include "trainer/data/synthetic_images.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace lockstep::trainer::data {
namespace {

const std::atomic<bool> kUninterrupted{false};
constexpr std::int64_t kImages = SyntheticImages::kImages;

std::vector<std::byte> input_of(const core::Batch& batch, size_t input) {
  return {batch.inputs()[input].begin(), batch.inputs()[input].end()};
}

TEST(SyntheticImages, have_mean_0_and_variance_1_and_classes_in_bounds) {
  SyntheticImages source({.pixels = 16, .classes = 10, .seed = 3});
  const core::Batch batch = source.take(0, kImages, kUninterrupted).value();
  std::vector<float> values(16 * 16 * 3 * kImages);
  ASSERT_EQ(batch.inputs()[0].size(), values.size());
  core::spread_pixels(reinterpret_cast<const std::uint8_t*>(batch.inputs()[0].data()), values.size(), *batch.pixels(),
                      core::ElementType::kFloat32, values.data(), 1);
  double sum = 0, squares = 0;
  for (float value : values) sum += value, squares += value * value;
  EXPECT_NEAR(sum / static_cast<double>(values.size()), 0, 0.02);
  EXPECT_NEAR(squares / static_cast<double>(values.size()), 1, 0.02);
  std::vector<std::int32_t> classes(kImages);
  std::memcpy(classes.data(), batch.inputs()[1].data(), batch.inputs()[1].size());
  EXPECT_EQ(*std::min_element(classes.begin(), classes.end()), 0);
  EXPECT_EQ(*std::max_element(classes.begin(), classes.end()), 9);
}

TEST(SyntheticImages, are_a_function_of_seed_and_position_and_repeat) {
  SyntheticImages source({.pixels = 8, .seed = 3}), same({.pixels = 8, .seed = 3}), other({.pixels = 8, .seed = 4});
  for (size_t input : {0U, 1U}) {
    const auto first = input_of(source.take(5, 4, kUninterrupted).value(), input);
    EXPECT_EQ(first, input_of(same.take(5, 4, kUninterrupted).value(), input));
    EXPECT_EQ(first, input_of(source.take(5 + kImages, 4, kUninterrupted).value(), input));
    EXPECT_EQ(first, input_of(source.take_held_out(5, 4, kUninterrupted).value(), input));
    EXPECT_NE(first, input_of(source.take(6, 4, kUninterrupted).value(), input));
    EXPECT_NE(first, input_of(other.take(5, 4, kUninterrupted).value(), input));
  }
}

TEST(SyntheticImages, hold_out_as_many_as_are_wanted) {
  EXPECT_EQ(SyntheticImages({.pixels = 8}).held_out(), kImages);
  EXPECT_EQ(SyntheticImages({.pixels = 8, .most_held_out = 6}).held_out(), 6);
  EXPECT_EQ(SyntheticImages({.pixels = 8, .most_held_out = 1000}).held_out(), kImages);
}

}  // namespace
}  // namespace lockstep::trainer::data
