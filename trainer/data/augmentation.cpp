#include "trainer/data/augmentation.h"

#include "trainer/core/random.h"

namespace lockstep::trainer::data {

View view_of(const Augmentation& augmentation, std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
  std::uint64_t key = core::derive(core::derive(seed, "augmentation"), static_cast<std::uint64_t>(epoch));
  key = core::derive(key, static_cast<std::uint64_t>(sample));
  auto move = [&](std::uint64_t counter) {
    const auto choices = static_cast<std::uint64_t>(2 * augmentation.padding + 1);
    return static_cast<std::int64_t>(core::derive(key, counter) % choices) - augmentation.padding;
  };
  return {.down = move(0), .right = move(1), .flipped = augmentation.flips && core::derive(key, 2) % 2 == 1};
}

Normaliser::Normaliser(const ChannelStatistics& statistics) {
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t pixel = 0; pixel < 256; ++pixel) {
      const double value = static_cast<double>(pixel) / 255;
      table_[channel][pixel] = static_cast<float>((value - statistics.mean[channel]) / statistics.deviation[channel]);
    }
  }
}

void Normaliser::write(const Image& image, const View& view, core::ElementType real, void* to) const {
  auto put = [&](auto* at) {
    for (std::int64_t y = 0; y < image.height; ++y) {
      for (std::int64_t x = 0; x < image.width; ++x) {
        const std::int64_t row = y + view.down, column = (view.flipped ? image.width - 1 - x : x) + view.right;
        const bool inside = row >= 0 && row < image.height && column >= 0 && column < image.width;
        const std::uint8_t* pixel = image.pixels.data() + (inside ? (row * image.width + column) * 3 : 0);
        for (size_t channel = 0; channel < 3; ++channel) *at++ = table_[channel][inside ? pixel[channel] : 0];
      }
    }
  };
  if (real == core::ElementType::kFloat32) {
    put(static_cast<float*>(to));
  } else {
    put(static_cast<double*>(to));
  }
}

}  // namespace lockstep::trainer::data
