#include "trainer/data/sampler.h"

#include <bit>

#include "trainer/core/random.h"

namespace lockstep::trainer::data {

Permutation::Permutation(std::uint64_t count, std::uint64_t key) : count_(count) {
  int bits = count < 2 ? 1 : std::bit_width(count - 1);
  half_bits_ = (bits + 1) / 2;
  for (int i = 0; i < kRounds; ++i) round_keys_[i] = core::derive(key, static_cast<std::uint64_t>(i));
}

std::uint64_t Permutation::at(std::uint64_t index) const {
  std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = index;
  do {
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint64_t round_key : round_keys_) {
      std::uint64_t next = left ^ (core::mix(right ^ round_key) & mask);
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= count_);
  return value;
}

Place place_of(std::int64_t position, std::int64_t count, std::uint64_t seed) {
  Place place{.epoch = position / count, .index = position % count};
  std::uint64_t key = core::derive(core::derive(seed, "order"), static_cast<std::uint64_t>(place.epoch));
  Permutation permutation(static_cast<std::uint64_t>(count), key);
  place.sample = static_cast<std::int64_t>(permutation.at(static_cast<std::uint64_t>(place.index)));
  return place;
}

}  // namespace lockstep::trainer::data
