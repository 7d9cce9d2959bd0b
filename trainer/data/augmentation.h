// From the pixels of an image to what a network reads: a random crop and flip, and a scale per channel.
// Small images are moved in a black frame; of photographs, a part is cut and resized.
#pragma once

#include <array>
#include <cstdint>

#include "trainer/core/pixels.h"
#include "trainer/data/jpeg.h"
#include "trainer/data/resize.h"

namespace lockstep::trainer::data {

struct Augmentation {
  std::int64_t padding = 4;  // pixels of black around the image, of which a random part of its size is cut; 0: none
  bool flips = true;         // half of the images are mirrored
  bool crops = false;        // images have any size, and a random part of each is resized; no padding then
};
inline constexpr Augmentation kPhotographs{.padding = 0, .flips = true, .crops = true};

// The part of the padded image that is used. Without augmentation: all zero.
struct View {
  std::int64_t down = 0, right = 0;  // pixels by which it is moved, from -padding to padding
  bool flipped = false;
  std::uint64_t crop = 0;  // keys random_crop(); 0: middle_crop()

  friend bool operator==(const View&, const View&) = default;
};

// A pure function: every rank sees a sample in the same way, in each epoch in another one.
View view_of(const Augmentation& augmentation, std::uint64_t seed, std::int64_t epoch, std::int64_t sample);

// A part of an image with 8 to 100 % of its pixels; its sides have a ratio of 3:4 to 4:3. Inception is trained on such
// parts (Szegedy et al. 2014). A pure function. Where ten tries at random do not fit, the middle: all of it but what
// such a ratio leaves over. Sizes are in pixels, at least 1.
Crop random_crop(std::int64_t height, std::int64_t width, std::uint64_t key);
// The square in the middle whose side is 7/8 of the shorter one: 224 pixels of an image that is 256 high.
Crop middle_crop(std::int64_t height, std::int64_t width);

// Of red, green and blue, where pixels are from 0 to 1.
struct ChannelStatistics {
  std::array<double, 3> mean{0.5, 0.5, 0.5};
  std::array<double, 3> deviation{0.25, 0.25, 0.25};  // above 0
};
inline constexpr ChannelStatistics kCifarStatistics{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
inline constexpr ChannelStatistics kImageNetStatistics{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

// (pixel - mean) / deviation of each byte.
core::PixelValues values_of(const ChannelStatistics& statistics);

// Writes the pixels of the view as (height, width, 3). What lies outside of the image is black.
void write_view(const Image& image, const View& view, std::uint8_t* to);

}  // namespace lockstep::trainer::data
