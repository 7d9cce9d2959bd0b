// For tests of kernels that slide a window over images: shapes, and a loop over what each window holds.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>

#include "trainer/backend/cuda/kernels/slid_images.h"

namespace lockstep::trainer::cuda {

inline void PrintTo(const SlidImages& k, std::ostream* out) {
  *out << k.samples << "x" << k.height << "x" << k.width << "x" << k.channels << ", kernel " << k.kernel << ", stride "
       << k.stride << ", padding " << k.padding;
}

namespace testing {

// With as many places as the window has.
inline SlidImages slid(SlidImages images) {
  images.out_height = (images.height + 2 * images.padding - images.kernel) / images.stride + 1;
  images.out_width = (images.width + 2 * images.padding - images.kernel) / images.stride + 1;
  return images;
}

inline size_t elements_in(const SlidImages& images) {
  return static_cast<size_t>(images.elements());
}

inline size_t elements_out(const SlidImages& images) {
  return static_cast<size_t>(images.places() * images.channels);
}

// Calls body() for each pixel of the image in each window, window by window, in the order of rows and columns. Its
// arguments: index of the pixel's channel, number of the pixel in the window, index of the place's channel, channel.
inline void for_each_pixel(const SlidImages& k, const std::function<void(size_t, size_t, size_t, size_t)>& body) {
  for (std::int64_t place = 0; place < k.places(); ++place) {
    const std::int64_t sample = place / (k.out_height * k.out_width);
    const std::int64_t top = place / k.out_width % k.out_height * k.stride - k.padding;
    const std::int64_t left = place % k.out_width * k.stride - k.padding;
    for (std::int64_t tap = 0; tap < k.kernel * k.kernel; ++tap) {
      const std::int64_t row = top + tap / k.kernel, column = left + tap % k.kernel;
      if (row < 0 || row >= k.height || column < 0 || column >= k.width) continue;
      const std::int64_t pixel = (sample * k.height + row) * k.width + column;
      for (std::int64_t c = 0; c < k.channels; ++c) {
        body(static_cast<size_t>(pixel * k.channels + c), static_cast<size_t>(tap),
             static_cast<size_t>(place * k.channels + c), static_cast<size_t>(c));
      }
    }
  }
}

}  // namespace testing
}  // namespace lockstep::trainer::cuda
