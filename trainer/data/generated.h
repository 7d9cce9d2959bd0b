// Samples made from (seed, index) alone, with known answers.
#pragma once

#include <vector>

#include "trainer/core/tensor.h"
#include "trainer/data/row_source.h"

namespace lockstep::trainer::data {

// y = 3 x + noise, x nearly normal, noise of deviation 0.1. Inputs: x (rows, 1), y (rows, 1).
class LineSource final : public RowSource {
 public:
  static constexpr double kSlope = 3.0, kNoise = 0.1;
  static constexpr std::int64_t kTraining = 10000, kHeldOut = 512;

  LineSource(core::ElementType real, std::uint64_t seed)
      : RowSource({core::size_of(real), core::size_of(real)}), real_(real), seed_(seed) {}
  void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const override;
  std::int64_t held_out() const override { return kHeldOut; }
  void write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const override;

 private:
  void write_sample(std::int64_t sample, std::int64_t row, std::span<void* const> inputs) const;
  core::ElementType real_;
  std::uint64_t seed_;
};

// Classes as clouds around random centres. Inputs: features (rows, kFeatures), class (rows).
class BlobSource final : public RowSource {
 public:
  static constexpr std::int64_t kFeatures = 32, kClasses = 10;
  static constexpr std::int64_t kTraining = 20000, kHeldOut = 1024;

  BlobSource(core::ElementType real, std::uint64_t seed);
  void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const override;
  std::int64_t held_out() const override { return kHeldOut; }
  void write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const override;

 private:
  void write_sample(std::int64_t sample, std::int64_t row, std::span<void* const> inputs) const;
  core::ElementType real_;
  std::uint64_t seed_;
  std::vector<double> centres_;  // (kClasses, kFeatures)
};

}  // namespace lockstep::trainer::data
