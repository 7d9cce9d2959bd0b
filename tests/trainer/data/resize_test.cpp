#include "trainer/data/resize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trainer/core/random.h"

namespace lockstep::trainer::data {
namespace {

Image noisy(std::int64_t height, std::int64_t width) {
  Image image{.height = height, .width = width};
  for (std::int64_t i = 0; i < height * width * 3; ++i) {
    image.pixels.push_back(static_cast<std::uint8_t>(core::derive(5, static_cast<std::uint64_t>(i)) % 256));
  }
  return image;
}

Image scaled(const Image& from, const Crop& crop, std::int64_t height, std::int64_t width) {
  Resizer resizer;
  Image to;
  resizer.resize(noisy(40, 40), {0, 0, 40, 40}, 50, 60, to);  // leaves its memory
  resizer.resize(from, crop, height, width, to);
  EXPECT_EQ(to.height, height);
  EXPECT_EQ(to.width, width);
  EXPECT_EQ(to.pixels.size(), static_cast<size_t>(height * width * 3));
  return to;
}

// Of one row or column: the triangle filter in real numbers.
std::vector<double> by_triangle(const std::vector<double>& from, std::int64_t to) {
  const double scale = static_cast<double>(from.size()) / static_cast<double>(to), reach = std::max(1.0, scale);
  std::vector<double> result;
  for (std::int64_t x = 0; x < to; ++x) {
    double sum = 0, weights = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      const double distance = std::fabs(static_cast<double>(i) + 0.5 - (static_cast<double>(x) + 0.5) * scale);
      const double weight = std::max(0.0, 1 - distance / reach);
      sum += weight * from[i];
      weights += weight;
    }
    result.push_back(sum / weights);
  }
  return result;
}

TEST(Resize, a_crop_of_the_same_size_is_copied) {
  const Image image = noisy(9, 7);
  const Image cut = scaled(image, {2, 3, 5, 4}, 5, 4);
  for (std::int64_t y = 0; y < 5; ++y) {
    for (std::int64_t k = 0; k < 4 * 3; ++k) {
      EXPECT_EQ(cut.pixels[static_cast<size_t>(y * 4 * 3 + k)],
                image.pixels[static_cast<size_t>(((y + 2) * 7 + 3) * 3 + k)]);
    }
  }
}

TEST(Resize, rows_and_columns_are_filtered_by_a_triangle) {
  for (const auto& [from, to] : {std::pair{10, 10}, {10, 4}, {100, 7}, {16384, 3}, {7, 20}, {1, 5}, {5, 1}, {1, 1}}) {
    const Image row = noisy(1, from);
    Image column{.height = from, .width = 1, .pixels = row.pixels};
    const Image wide = scaled(row, {0, 0, 1, from}, 1, to), high = scaled(column, {0, 0, from, 1}, to, 1);
    EXPECT_EQ(wide.pixels, high.pixels);
    for (size_t channel = 0; channel < 3; ++channel) {
      std::vector<double> values;
      for (size_t i = channel; i < row.pixels.size(); i += 3) values.push_back(row.pixels[i]);
      const std::vector<double> expected = by_triangle(values, to);
      for (size_t x = 0; x < expected.size(); ++x) {
        EXPECT_NEAR(wide.pixels[x * 3 + channel], expected[x], 0.6) << from << " to " << to << " at " << x;
      }
    }
  }
}

TEST(Resize, an_even_image_stays_even) {
  Image white{.height = 300, .width = 211};
  white.pixels.assign(std::size_t{300} * 211 * 3, 255);
  for (std::uint8_t pixel : scaled(white, {10, 1, 277, 210}, 64, 48).pixels) ASSERT_EQ(pixel, 255);
}

}  // namespace
}  // namespace lockstep::trainer::data
