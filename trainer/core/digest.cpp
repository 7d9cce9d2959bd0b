#include "trainer/core/digest.h"

#include <array>
#include <cstring>

#include "trainer/core/random.h"

namespace lockstep::trainer::core {

namespace {

// Lanes do not wait for each other's multiplications, so that the memory is what limits.
constexpr size_t kLanes = 8;
constexpr size_t kStride = kLanes * sizeof(std::uint64_t);
constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;  // odd, so that a step is a bijection of its lane

using Lanes = std::array<std::uint64_t, kLanes>;

inline void absorb(Lanes& lanes, const std::byte* data) {
  Lanes words;
  std::memcpy(words.data(), data, kStride);
  for (size_t i = 0; i < kLanes; ++i) {
    std::uint64_t lane = (lanes[i] ^ words[i]) * kFactor;
    lanes[i] = lane ^ (lane >> 32);
  }
}

}  // namespace

void Digest::add(const std::byte* data, size_t bytes) {
  Lanes lanes;
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = mix(i);
  size_t whole = bytes - bytes % kStride;
  for (size_t at = 0; at < whole; at += kStride) absorb(lanes, data + at);
  if (whole < bytes) {  // filled up with zeros; the length below tells it from real ones
    std::array<std::byte, kStride> rest{};
    std::memcpy(rest.data(), data + whole, bytes - whole);
    absorb(lanes, rest.data());
  }
  value_ = derive(value_, bytes);
  for (std::uint64_t lane : lanes) value_ = derive(value_, lane);
}

}  // namespace lockstep::trainer::core
