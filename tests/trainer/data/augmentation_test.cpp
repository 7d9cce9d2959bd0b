#include "trainer/data/augmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace lockstep::trainer::data {
namespace {

TEST(Augmentation, a_view_depends_on_seed_epoch_and_sample_alone) {
  const Augmentation augmentation;
  const View view = view_of(augmentation, 1, 2, 3);
  EXPECT_EQ(view, view_of(augmentation, 1, 2, 3));
  int same = 0;
  for (std::int64_t i = 10; i < 1010; ++i) {
    same += view == view_of(augmentation, static_cast<std::uint64_t>(i), 2, 3) ? 1 : 0;
    same += view == view_of(augmentation, 1, i, 3) ? 1 : 0;
    same += view == view_of(augmentation, 1, 2, i) ? 1 : 0;
  }
  EXPECT_LT(same, 60) << "3000 of 162 views";
}

TEST(Augmentation, all_moves_and_flips_are_equally_likely) {
  std::map<std::int64_t, int> down, right, flipped;
  for (std::int64_t sample = 0; sample < 9000; ++sample) {
    const View view = view_of({.padding = 4, .flips = true}, 1, 0, sample);
    ++down[view.down], ++right[view.right], ++flipped[view.flipped ? 1 : 0];
  }
  EXPECT_EQ(down.begin()->first, -4);
  EXPECT_EQ(down.size(), 9U);
  EXPECT_EQ(right.size(), 9U);
  for (const auto* moves : {&down, &right}) {
    for (const auto& [move, count] : *moves) EXPECT_NEAR(count, 1000, 150) << move;
  }
  EXPECT_NEAR(flipped[1], 4500, 250);
  EXPECT_EQ(view_of({.padding = 0, .flips = false}, 1, 2, 3), View{});
}

TEST(Augmentation, random_crops_lie_inside_and_have_the_sizes_that_they_should) {
  double least = 1, most = 0, narrowest = 9, widest = 0, sum = 0;
  int higher = 0;
  std::map<Crop, int,
           decltype([](const Crop& a, const Crop& b) { return a.top * 1000 + a.left < b.top * 1000 + b.left; })>
      places;
  constexpr int kCrops = 4000;
  for (std::uint64_t key = 0; key < kCrops; ++key) {
    const Crop crop = random_crop(400, 400, key);
    ASSERT_GE(std::min(crop.top, crop.left), 0);
    ASSERT_LE(crop.top + crop.height, 400);
    ASSERT_LE(crop.left + crop.width, 400);
    EXPECT_EQ(crop, random_crop(400, 400, key));
    const double share = static_cast<double>(crop.height * crop.width) / (400 * 400);
    const double ratio = static_cast<double>(crop.width) / static_cast<double>(crop.height);
    least = std::min(least, share), most = std::max(most, share), sum += share;
    narrowest = std::min(narrowest, ratio), widest = std::max(widest, ratio);
    higher += ratio < 1 ? 1 : 0;
    ++places[crop];
  }
  EXPECT_NEAR(least, 0.08, 0.005);
  EXPECT_GT(most, 0.95);
  EXPECT_NEAR(sum / kCrops, 0.5, 0.05);
  EXPECT_NEAR(narrowest, 0.75, 0.01);
  EXPECT_NEAR(widest, 4.0 / 3, 0.01);
  EXPECT_NEAR(higher, kCrops / 2, 200);
  EXPECT_GT(places.size(), 3000U);
}

TEST(Augmentation, crops_of_odd_images_have_at_least_one_pixel) {
  for (const auto& [height, width] : {std::pair{1, 1}, {1, 16384}, {16384, 1}, {2, 3}, {50, 2000}}) {
    for (std::uint64_t key = 0; key < 200; ++key) {
      for (const Crop& crop : {random_crop(height, width, key), middle_crop(height, width)}) {
        ASSERT_GE(std::min({crop.height, crop.width}), 1);
        ASSERT_GE(std::min(crop.top, crop.left), 0);
        ASSERT_LE(crop.top + crop.height, height);
        ASSERT_LE(crop.left + crop.width, width);
      }
    }
  }
  EXPECT_EQ(random_crop(50, 2000, 1), (Crop{0, 967, 50, 66})) << "no try fits: the middle";
}

TEST(Augmentation, the_middle_of_an_image_is_a_square) {
  EXPECT_EQ(middle_crop(256, 256), (Crop{16, 16, 224, 224}));
  EXPECT_EQ(middle_crop(256, 400), (Crop{16, 88, 224, 224}));
}

TEST(Augmentation, only_photographs_have_a_random_crop) {
  EXPECT_EQ(view_of({}, 1, 2, 3).crop, 0U);
  const View view = view_of(kPhotographs, 1, 2, 3);
  EXPECT_NE(view.crop, 0U);
  EXPECT_NE(view.crop, view_of(kPhotographs, 1, 3, 3).crop);
  EXPECT_EQ(view.down, 0);
}

TEST(Augmentation, a_view_moves_and_mirrors_and_has_black_around) {
  // (2, 3), one number a pixel in all channels.
  Image image{.height = 2, .width = 3};
  for (int pixel : {10, 20, 30, 40, 50, 60})
    image.pixels.insert(image.pixels.end(), 3, static_cast<std::uint8_t>(pixel));
  auto seen = [&](const View& view) {
    std::vector<std::uint8_t> all(18), one;
    write_view(image, view, all.data());
    for (size_t i = 0; i < all.size(); i += 3) one.push_back(all[i]);
    return one;
  };
  EXPECT_EQ(seen({}), (std::vector<std::uint8_t>{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(seen({.flipped = true}), (std::vector<std::uint8_t>{30, 20, 10, 60, 50, 40}));
  EXPECT_EQ(seen({.down = 1}), (std::vector<std::uint8_t>{40, 50, 60, 0, 0, 0}));
  EXPECT_EQ(seen({.down = -1, .right = 1}), (std::vector<std::uint8_t>{0, 0, 0, 20, 30, 0}));
  EXPECT_EQ(seen({.right = 1, .flipped = true}), (std::vector<std::uint8_t>{0, 30, 20, 0, 60, 50}));
  EXPECT_EQ(seen({.down = -2}), std::vector<std::uint8_t>(6, 0));
}

TEST(Augmentation, each_channel_has_its_scale_and_both_types_the_same_numbers) {
  const std::uint8_t pixels[] = {51, 102, 255};
  const core::PixelValues values = values_of({.mean = {0.2, 0.5, 0.5}, .deviation = {1, 0.1, 0.25}});
  float floats[3];
  double doubles[3];
  core::spread_pixels(pixels, 3, values, core::ElementType::kFloat32, floats, 1);
  core::spread_pixels(pixels, 3, values, core::ElementType::kFloat64, doubles, 1);
  const double expected[] = {0, -1, 2};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(floats[i], expected[i], 1e-6);
    EXPECT_EQ(doubles[i], static_cast<double>(floats[i]));
  }
}

}  // namespace
}  // namespace lockstep::trainer::data
