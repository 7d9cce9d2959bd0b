// bfloat16 and TF32 for the fakes of cuBLASLt and cuDNN. bfloat16 is the upper half of a float32, written apart from
// the backend's own.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::trainer::cuda::fake {

inline float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// To nearest, ties to the even one.
inline std::uint16_t to_bfloat16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t below = bits & 0xffff, kept = bits >> 16;
  const bool up = below > 0x8000 || (below == 0x8000 && (kept & 1) != 0);
  return static_cast<std::uint16_t>(kept + (up ? 1 : 0));
}

// To the 10 bits of mantissa of TF32. Rounds to nearest, ties away from zero, as PTX's cvt.rna.tf32.f32 does, the only
// such conversion that compute capability 8.0 has. cuBLASLt and cuDNN do not document how they round.
inline float to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000U) & ~0x1fffU);
}

// Numbers in memory of the host that are float32 or bfloat16, to be read as float32.
class Numbers {
 public:
  Numbers(const void* at, bool bfloat16, size_t count) : floats_(static_cast<const float*>(at)) {
    if (!bfloat16) return;
    const auto* const bits = static_cast<const std::uint16_t*>(at);
    widened_.reserve(count);
    for (size_t i = 0; i < count; ++i) widened_.push_back(from_bfloat16(bits[i]));
    floats_ = widened_.data();
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  const float* data() const { return floats_; }

 private:
  const float* floats_;
  std::vector<float> widened_;
};

// Writes number `i`, rounded to the memory's type.
inline void put(void* at, bool bfloat16, size_t i, double value) {
  const auto number = static_cast<float>(value);
  if (bfloat16) {
    static_cast<std::uint16_t*>(at)[i] = to_bfloat16(number);
  } else {
    static_cast<float*>(at)[i] = number;
  }
}

}  // namespace lockstep::trainer::cuda::fake
