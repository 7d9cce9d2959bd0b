#include "trainer/data/synthetic_images.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "trainer/core/random.h"
#include "trainer/data/augmentation.h"

namespace lockstep::trainer::data {

namespace {

// Of bytes that are uniform.
constexpr double kDeviation = 73.90027063549903;  // sqrt((256^2 - 1) / 12)
constexpr ChannelStatistics kNoise{{0.5, 0.5, 0.5}, {kDeviation / 255, kDeviation / 255, kDeviation / 255}};

size_t pixels_of(const SyntheticOptions& options) {
  return static_cast<size_t>(options.pixels * options.pixels) * core::kColours;
}

}  // namespace

SyntheticImages::SyntheticImages(const SyntheticOptions& options)
    : RowSource({pixels_of(options), sizeof(std::int32_t)},
                std::make_shared<const core::PixelValues>(values_of(kNoise))),
      held_out_(options.most_held_out == 0 ? kImages : std::min(kImages, options.most_held_out)),
      image_bytes_(pixels_of(options)),
      images_(static_cast<size_t>(kImages) * image_bytes_) {
  const std::uint64_t key = core::derive(options.seed, "synthetic images");
  for (size_t i = 0; i < images_.size(); ++i) images_[i] = static_cast<std::uint8_t>(core::derive(key, i) >> 56);
  for (std::uint64_t i = 0; i < kImages; ++i) {
    const std::uint64_t bits = core::derive(core::derive(key, "class"), i);
    classes_.push_back(static_cast<std::int32_t>(bits % static_cast<std::uint64_t>(options.classes)));
  }
}

void SyntheticImages::write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const {
  const auto image = static_cast<size_t>(position % kImages), to = static_cast<size_t>(row);
  std::memcpy(static_cast<std::byte*>(inputs[0]) + to * image_bytes_, images_.data() + image * image_bytes_,
              image_bytes_);
  static_cast<std::int32_t*>(inputs[1])[to] = classes_[image];
}

}  // namespace lockstep::trainer::data
