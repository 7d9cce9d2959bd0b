#include "trainer/data/jpeg.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/sanitizer.h"
#include "tests/trainer/data/record_files.h"

namespace lockstep::trainer::data {
namespace {

constexpr ImageSize kMost{.height = 40, .width = 40};

// A gradient: `height` rows by `width` columns.
Image gradient(std::int64_t height, std::int64_t width) {
  Image image{.height = height, .width = width};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t value : {8 * x, 8 * y, 255 - 4 * (x + y)})
        image.pixels.push_back(static_cast<std::uint8_t>(value));
    }
  }
  return image;
}

Status decode(const std::string& encoded, Image& image) {
  return JpegDecoder().decode(std::as_bytes(std::span(encoded)), kMost, image);
}

TEST(Jpeg, pixels_are_rows_of_red_green_and_blue) {
  const Image original = gradient(24, 31);
  Image decoded;
  ASSERT_TRUE(decode(encode_jpeg(original, 100).value(), decoded).ok());
  EXPECT_EQ(decoded.height, 24);
  EXPECT_EQ(decoded.width, 31);
  ASSERT_EQ(decoded.pixels.size(), original.pixels.size());
  for (size_t i = 0; i < original.pixels.size(); ++i) EXPECT_NEAR(decoded.pixels[i], original.pixels[i], 4);
}

TEST(Jpeg, a_decoder_serves_images_of_different_sizes) {
  JpegDecoder decoder;
  Image image, apart;
  for (std::int64_t side : {32, 8, 17}) {
    const std::string encoded = encode_jpeg(gradient(side, side + 1), 90).value();
    ASSERT_TRUE(decoder.decode(std::as_bytes(std::span(encoded)), kMost, image).ok());
    ASSERT_TRUE(decode(encoded, apart).ok());
    EXPECT_EQ(image.pixels, apart.pixels);
  }
}

TEST(Jpeg, an_image_that_is_too_large_takes_no_memory) {
  const std::string encoded = encode_jpeg(gradient(24, 31), 90).value();
  for (const ImageSize most : {ImageSize{.height = 23, .width = 31}, ImageSize{.height = 24, .width = 30}}) {
    Image image;
    EXPECT_EQ(JpegDecoder().decode(std::as_bytes(std::span(encoded)), most, image).error().code, ErrorCode::kInvalid);
    EXPECT_EQ(image.height, 24);
    EXPECT_EQ(image.width, 31);
    EXPECT_EQ(image.pixels.capacity(), 0U);
  }
}

TEST(Jpeg, what_is_no_image_is_corrupt) {
  Image image;
  EXPECT_EQ(decode("", image).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(decode("\x89PNG", image).error().message.rfind("the JPEG cannot be decoded: Not a JPEG file", 0), 0U);
  std::string whole = encode_jpeg(gradient(32, 32), 90).value();
  EXPECT_EQ(decode(whole.substr(0, whole.size() * 9 / 10), image).error().message,
            "the JPEG cannot be decoded: Premature end of JPEG file");
}

TEST(Jpeg, an_image_after_a_damaged_one_is_whole) {
  const std::string whole = encode_jpeg(gradient(16, 16), 90).value();
  Image expected, image;
  ASSERT_TRUE(decode(whole, expected).ok());
  JpegDecoder decoder;
  for (size_t bytes = 0; bytes + 2 < whole.size(); ++bytes) {
    EXPECT_FALSE(decoder.decode(std::as_bytes(std::span(whole).first(bytes)), kMost, image).ok());
    ASSERT_TRUE(decoder.decode(std::as_bytes(std::span(whole)), kMost, image).ok()) << "after " << bytes << " bytes";
    EXPECT_EQ(image.pixels, expected.pixels);
  }
}

TEST(Jpeg, any_damage_is_an_image_or_an_error) {
  const std::uint64_t seed = testing::fresh_seed();
  SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string whole = encode_jpeg(gradient(16, 16), 90).value();
  Image image;
  for (int round = 0; round < sanitizer::cases(3000); ++round) {
    std::string damaged = whole;
    for (std::uint64_t i = 1 + random() % 3; i > 0; --i)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    const Status decoded = decode(damaged, image);
    if (!decoded) {
      const bool larger = image.height > kMost.height || image.width > kMost.width;
      ASSERT_TRUE(decoded.error().code == (larger ? ErrorCode::kInvalid : ErrorCode::kCorrupt) ||
                  decoded.error().code == ErrorCode::kCorrupt)
          << decoded.error().message;
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer::data
