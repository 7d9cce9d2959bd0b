// Cuts a part out of an image and scales it. Integers alone: the same image has the same pixels on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/jpeg.h"

namespace lockstep::trainer::data {

// A part of an image, in pixels. It has at least one, and lies inside.
struct Crop {
  std::int64_t top = 0, left = 0, height = 0, width = 0;

  friend bool operator==(const Crop&, const Crop&) = default;
};

// One thread at a time.
class Resizer {
 public:
  // Writes the crop of `from` as `height` rows of `width` pixels into `to`, whose memory is used again. The filter is
  // bilinear; where it shrinks the crop, its triangle grows with the factor, so that each pixel of the crop counts.
  void resize(const Image& from, const Crop& crop, std::int64_t height, std::int64_t width, Image& to);

 private:
  // The pixels that each pixel of a scaled row or column is a weighted sum of.
  struct Taps {
    struct Range {
      std::int64_t first = 0, count = 0;  // pixels of the crop
      size_t at = 0;                      // of its weights
    };
    std::vector<Range> ranges;
    std::vector<std::int32_t> weights;  // 2^14 together, of each range

    void plan(std::int64_t from, std::int64_t to);
  };
  void scale_columns(const Image& from, const Crop& crop);
  void scale_rows(Image& to);

  Taps columns_, rows_;
  std::vector<std::uint8_t> narrow_;  // (rows of the crop, columns of the result, 3)
  std::vector<std::int32_t> sums_;    // of one row
};

}  // namespace lockstep::trainer::data
