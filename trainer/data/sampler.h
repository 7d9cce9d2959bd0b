// The order of samples as a pure function of (seed, epoch, index): a keyed permutation of each epoch that is computed,
// never stored. It knows no rank and no world size, so a restart at any size continues at the sample where it stopped.
#pragma once

#include <cstdint>

namespace lockstep::trainer::data {

// A permutation of [0, count) chosen by `key`: a Feistel network on the next even number of bits, walked until the
// value falls inside.
class Permutation {
 public:
  Permutation(std::uint64_t count, std::uint64_t key);
  // index < count.
  std::uint64_t at(std::uint64_t index) const;

 private:
  static constexpr int kRounds = 6;
  std::uint64_t count_;
  int half_bits_ = 1;
  std::uint64_t round_keys_[kRounds];
};

struct Place {
  std::int64_t epoch = 0;
  std::int64_t index = 0;   // in the epoch
  std::int64_t sample = 0;  // which of the `count` samples has that place
};

// Where `position`, the number of samples consumed before, lies among epochs of `count` samples.
Place place_of(std::int64_t position, std::int64_t count, std::uint64_t seed);

}  // namespace lockstep::trainer::data
