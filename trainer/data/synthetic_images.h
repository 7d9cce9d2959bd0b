// Images of noise, made once: what a network costs without storage and decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/data/row_source.h"

namespace lockstep::trainer::data {

struct SyntheticOptions {
  std::int64_t pixels = 224;  // rows and columns
  std::int64_t classes = 1000;
  std::uint64_t seed = 0;
  std::int64_t most_held_out = 0;  // 0: all
};

// kImages images with random classes, again and again in one order. Held out are the same ones. Inputs: images (rows,
// pixels, pixels, 3), as bytes that stand for numbers with mean 0 and variance 1, and classes (rows), int32.
class SyntheticImages final : public RowSource {
 public:
  static constexpr std::int64_t kImages = 64;

  explicit SyntheticImages(const SyntheticOptions& options);
  void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const override;
  std::int64_t held_out() const override { return held_out_; }
  void write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const override {
    write(index, row, inputs);
  }

 private:
  std::int64_t held_out_;
  size_t image_bytes_;
  std::vector<std::uint8_t> images_;   // (kImages, pixels, pixels, 3)
  std::vector<std::int32_t> classes_;  // (kImages)
};

}  // namespace lockstep::trainer::data
