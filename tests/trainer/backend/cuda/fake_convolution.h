// Part of the fake of cuDNN (fake_cudnn.cpp): computes a convolution from what its descriptors said.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::trainer::cuda::fake {

// As the library's attributes: in the order N, C, H, W or K, C, R, S, whatever the order in memory.
struct ConvolutionTensor {
  std::int64_t id = 0;
  bool bfloat16 = false;       // else float32
  std::int64_t alignment = 1;  // bytes
  std::array<std::int64_t, 4> dimensions{}, strides{};

  std::int64_t extent() const;  // elements from the first to behind the last
  std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3];
  }
};

// What an engine does that a program may not want.
enum class Flaw : std::uint8_t {
  kNone,
  kNondeterministic,  // the last bits differ from run to run
  kRoundsInputs,      // to the 11 bits of TF32
  kNarrowsInputs,     // to the 8 bits of bfloat16
  kRoundsSums,        // on the way, which leaves 6 bits of them
};

struct Convolution {
  enum class Pass : std::uint8_t { kForward, kDataGradient, kFilterGradient };
  Pass pass = Pass::kForward;
  bool flips = false;  // a convolution of mathematics, not a cross-correlation
  std::array<std::int64_t, 2> strides{}, dilations{}, before{}, after{};  // before, after: padding
  float alpha = 1, beta = 0;
  ConvolutionTensor x, w, y;
  Flaw flaw = Flaw::kNone;

  // Whether the sizes of x, w and y fit each other.
  bool fits() const;
  // With float64 sums, rounded once to the result's type. Addresses are of the host; the result's old values are read
  // unless beta is 0.
  void compute(void* x_values, void* w_values, void* y_values) const;
};

}  // namespace lockstep::trainer::cuda::fake
