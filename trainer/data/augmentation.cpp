#include "trainer/data/augmentation.h"

#include <algorithm>
#include <cmath>

#include "trainer/core/random.h"

namespace lockstep::trainer::data {

namespace {

// Of random_crop().
constexpr std::uint64_t kCropTries = 10;
constexpr double kLeastShare = 0.08;  // of all pixels
constexpr double kLargestRatio = 4.0 / 3;

}  // namespace

View view_of(const Augmentation& augmentation, std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
  std::uint64_t key = core::derive(core::derive(seed, "augmentation"), static_cast<std::uint64_t>(epoch));
  key = core::derive(key, static_cast<std::uint64_t>(sample));
  auto move = [&](std::uint64_t counter) {
    const auto choices = static_cast<std::uint64_t>(2 * augmentation.padding + 1);
    return static_cast<std::int64_t>(core::derive(key, counter) % choices) - augmentation.padding;
  };
  return {.down = move(0),
          .right = move(1),
          .flipped = augmentation.flips && core::derive(key, 2) % 2 == 1,
          .crop = augmentation.crops ? core::derive(key, 3) | 1 : 0};
}

Crop random_crop(std::int64_t height, std::int64_t width, std::uint64_t key) {
  // The square root is exact to the last bit everywhere, a logarithm is not: the longer side is uniform in 3:3 to 4:3.
  const auto pixels = static_cast<double>(height * width);
  const auto whole = [](double value) { return static_cast<std::int64_t>(std::floor(value + 0.5)); };
  for (std::uint64_t i = 0; i < kCropTries; ++i) {
    const std::uint64_t at = core::derive(key, i);
    const double area = pixels * (kLeastShare + (1 - kLeastShare) * core::uniform(at, 0));
    const double longer = 1 + (kLargestRatio - 1) * core::uniform(at, 1);
    const double ratio = core::derive(at, 2) % 2 == 0 ? longer : 1 / longer;
    const Crop crop{.height = whole(std::sqrt(area / ratio)), .width = whole(std::sqrt(area * ratio))};
    if (crop.height < 1 || crop.width < 1 || crop.height > height || crop.width > width) continue;
    const auto place = [&](std::uint64_t counter, std::int64_t room) {
      return static_cast<std::int64_t>(core::derive(at, counter) % static_cast<std::uint64_t>(room + 1));
    };
    return {place(3, height - crop.height), place(4, width - crop.width), crop.height, crop.width};
  }
  const std::int64_t rows = std::min(height, std::max<std::int64_t>(1, width * 4 / 3));
  const std::int64_t columns = std::min(width, std::max<std::int64_t>(1, height * 4 / 3));
  return {(height - rows) / 2, (width - columns) / 2, rows, columns};
}

Crop middle_crop(std::int64_t height, std::int64_t width) {
  const std::int64_t side = std::max<std::int64_t>(1, std::min(height, width) * 7 / 8);
  return {(height - side) / 2, (width - side) / 2, side, side};
}

core::PixelValues values_of(const ChannelStatistics& statistics) {
  core::PixelValues values;
  for (size_t channel = 0; channel < core::kColours; ++channel) {
    for (size_t pixel = 0; pixel < values[channel].size(); ++pixel) {
      const double value = static_cast<double>(pixel) / 255;
      values[channel][pixel] = static_cast<float>((value - statistics.mean[channel]) / statistics.deviation[channel]);
    }
  }
  return values;
}

void write_view(const Image& image, const View& view, std::uint8_t* to) {
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      const std::int64_t row = y + view.down, column = (view.flipped ? image.width - 1 - x : x) + view.right;
      const bool inside = row >= 0 && row < image.height && column >= 0 && column < image.width;
      const std::uint8_t* pixel = image.pixels.data() + (inside ? (row * image.width + column) * 3 : 0);
      for (size_t channel = 0; channel < core::kColours; ++channel) *to++ = inside ? pixel[channel] : 0;
    }
  }
}

}  // namespace lockstep::trainer::data
