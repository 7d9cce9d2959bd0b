#include "trainer/data/resize.h"

#include <algorithm>
#include <cstdlib>

namespace lockstep::trainer::data {

namespace {

constexpr int kBits = 14;
constexpr std::int32_t kHalf = 1 << (kBits - 1);

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>((sum + kHalf) >> kBits);  // weights are not negative and have the sum 2^14
}

}  // namespace

// In units of 1 / (2 to) pixels of the crop all places are integers. Pixel i is at (2 i + 1) to, that of the result at
// (2 x + 1) from. The triangle reaches max(from, to) 2 to each side.
void Resizer::Taps::plan(std::int64_t from, std::int64_t to) {
  ranges.resize(static_cast<size_t>(to));
  weights.clear();
  const std::int64_t reach = 2 * std::max(from, to);
  for (std::int64_t x = 0; x < to; ++x) {
    const std::int64_t centre = (2 * x + 1) * from;
    const std::int64_t first = std::max<std::int64_t>(0, (centre - reach) / (2 * to));
    const auto weight = [&](std::int64_t i) { return reach - std::abs((2 * i + 1) * to - centre); };
    Range& range = ranges[static_cast<size_t>(x)] = {.first = first, .at = weights.size()};
    while (weight(range.first) <= 0) ++range.first;
    std::int64_t all = 0, sum = 0;
    for (std::int64_t i = range.first; i < from && weight(i) > 0; ++i, ++range.count) all += weight(i);
    const auto share = [&](std::int64_t of) { return static_cast<std::int32_t>(((of << kBits) + all / 2) / all); };
    for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
      const std::int32_t before = share(sum);
      weights.push_back(share(sum += weight(i)) - before);
    }
  }
}

void Resizer::scale_columns(const Image& from, const Crop& crop) {
  std::uint8_t* to = narrow_.data();
  for (std::int64_t y = 0; y < crop.height; ++y) {
    const std::uint8_t* row = from.pixels.data() + ((crop.top + y) * from.width + crop.left) * 3;
    for (const Taps::Range& range : columns_.ranges) {
      const std::uint8_t* pixel = row + range.first * 3;
      const std::int32_t* weight = columns_.weights.data() + range.at;
      std::int32_t red = 0, green = 0, blue = 0;
      for (std::int64_t i = 0; i < range.count; ++i, pixel += 3) {
        red += weight[i] * pixel[0];
        green += weight[i] * pixel[1];
        blue += weight[i] * pixel[2];
      }
      *to++ = rounded(red), *to++ = rounded(green), *to++ = rounded(blue);
    }
  }
}

void Resizer::scale_rows(Image& to) {
  const auto width = static_cast<size_t>(to.width) * 3;
  sums_.resize(width);
  for (size_t y = 0; y < rows_.ranges.size(); ++y) {
    const Taps::Range& range = rows_.ranges[y];
    std::fill(sums_.begin(), sums_.end(), 0);
    for (std::int64_t i = 0; i < range.count; ++i) {
      const std::int32_t weight = rows_.weights[range.at + static_cast<size_t>(i)];
      const std::uint8_t* row = narrow_.data() + static_cast<size_t>(range.first + i) * width;
      for (size_t k = 0; k < width; ++k) sums_[k] += weight * row[k];
    }
    for (size_t k = 0; k < width; ++k) to.pixels[y * width + k] = rounded(sums_[k]);
  }
}

void Resizer::resize(const Image& from, const Crop& crop, std::int64_t height, std::int64_t width, Image& to) {
  columns_.plan(crop.width, width);
  rows_.plan(crop.height, height);
  narrow_.resize(static_cast<size_t>(crop.height * width * 3));
  to.height = height;
  to.width = width;
  to.pixels.resize(static_cast<size_t>(height * width * 3));
  scale_columns(from, crop);
  scale_rows(to);
}

}  // namespace lockstep::trainer::data
