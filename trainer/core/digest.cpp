#include "trainer/core/digest.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "trainer/core/parallel.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::core {

namespace {

// Independent lanes do not wait for each other's multiplications, so memory is the limit.
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

std::uint64_t digest_of_block(size_t array, size_t block, const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  Lanes lanes;
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = mix(i);
  size_t whole = bytes - bytes % kStride;
  for (size_t at = 0; at < whole; at += kStride) absorb(lanes, from + at);
  if (whole < bytes) {  // filled up with zeros; the length below tells it from real ones
    std::array<std::byte, kStride> rest{};
    std::memcpy(rest.data(), from + whole, bytes - whole);
    absorb(lanes, rest.data());
  }
  std::uint64_t value = derive(derive(derive(0x6c6f636b73746570ULL, array), block), bytes);
  for (std::uint64_t lane : lanes) value = derive(value, lane);
  return value;
}

std::uint64_t digest_of_array(size_t array, const void* data, size_t count, size_t width) {
  const auto* from = static_cast<const std::byte*>(data);
  std::uint64_t sum = 0;
  for (size_t block = 0, begin = 0; begin < count; ++block, begin += kBlock) {
    sum += digest_of_block(array, block, from + begin * width, std::min(kBlock, count - begin) * width);
  }
  return sum;
}

}  // namespace lockstep::trainer::core
