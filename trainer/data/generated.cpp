#include "trainer/data/generated.h"

#include "trainer/core/random.h"
#include "trainer/data/sampler.h"

namespace lockstep::trainer::data {

namespace {

constexpr double kDistance = 0.6;  // deviation of the centres, where the clouds have 1: about 2 % of them overlap

void put(core::ElementType real, void* to, std::int64_t at, double value) {
  auto narrow = static_cast<float>(value);  // also in double, so that backends see the same data
  if (real == core::ElementType::kFloat32) {
    static_cast<float*>(to)[at] = narrow;
  } else {
    static_cast<double*>(to)[at] = narrow;
  }
}

}  // namespace

void LineSource::write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const {
  write_sample(place_of(position, kTraining, seed_).sample, row, inputs);
}

void LineSource::write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const {
  write_sample(kTraining + index, row, inputs);
}

void LineSource::write_sample(std::int64_t sample, std::int64_t row, std::span<void* const> inputs) const {
  std::uint64_t key = core::derive(core::derive(seed_, "line"), static_cast<std::uint64_t>(sample));
  double x = core::normal(key, 0);
  put(real_, inputs[0], row, x);
  put(real_, inputs[1], row, kSlope * x + kNoise * core::normal(key, 1));
}

BlobSource::BlobSource(core::ElementType real, std::uint64_t seed)
    : RowSource({kFeatures * core::size_of(real), sizeof(std::int32_t)}),
      real_(real),
      seed_(seed),
      centres_(static_cast<size_t>(kClasses * kFeatures)) {
  std::uint64_t key = core::derive(seed, "centres");
  for (size_t i = 0; i < centres_.size(); ++i) centres_[i] = kDistance * core::normal(key, i);
}

void BlobSource::write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const {
  write_sample(place_of(position, kTraining, seed_).sample, row, inputs);
}

void BlobSource::write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const {
  write_sample(kTraining + index, row, inputs);
}

void BlobSource::write_sample(std::int64_t sample, std::int64_t row, std::span<void* const> inputs) const {
  std::uint64_t key = core::derive(core::derive(seed_, "blob"), static_cast<std::uint64_t>(sample));
  auto chosen = static_cast<std::int64_t>(core::derive(key, "class") % static_cast<std::uint64_t>(kClasses));
  for (std::int64_t i = 0; i < kFeatures; ++i) {
    double centre = centres_[static_cast<size_t>(chosen * kFeatures + i)];
    put(real_, inputs[0], row * kFeatures + i, centre + core::normal(key, static_cast<std::uint64_t>(i)));
  }
  static_cast<std::int32_t*>(inputs[1])[row] = static_cast<std::int32_t>(chosen);
}

}  // namespace lockstep::trainer::data
