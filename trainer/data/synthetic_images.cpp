#include "trainer/data/synthetic_images.h"

#include <algorithm>
#include <cstring>

#include "trainer/core/random.h"

namespace lockstep::trainer::data {

namespace {

// Numbers by (seed, place), rounded to float32 also for float64, so that backends see the same data.
template <typename T>
void fill_with_noise(std::uint64_t key, std::vector<std::byte>& bytes) {
  constexpr double kSpread = 3.4641016151377544;  // of uniform numbers with variance 1
  auto* values = reinterpret_cast<T*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    values[i] = static_cast<float>(kSpread * (core::uniform(key, i) - 0.5));
  }
}

}  // namespace

SyntheticImages::SyntheticImages(const SyntheticOptions& options)
    : RowSource({static_cast<size_t>(options.pixels * options.pixels * 3) * core::size_of(options.real),
                 sizeof(std::int32_t)}),
      held_out_(options.most_held_out == 0 ? kImages : std::min(kImages, options.most_held_out)),
      image_bytes_(static_cast<size_t>(options.pixels * options.pixels * 3) * core::size_of(options.real)),
      images_(static_cast<size_t>(kImages) * image_bytes_) {
  const std::uint64_t key = core::derive(options.seed, "synthetic images");
  if (options.real == core::ElementType::kFloat32) {
    fill_with_noise<float>(key, images_);
  } else {
    fill_with_noise<double>(key, images_);
  }
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
