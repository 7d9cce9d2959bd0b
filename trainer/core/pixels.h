// Images as bytes, and the numbers that the bytes stand for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

inline constexpr size_t kColours = 3;  // red, green and blue: the last dimension of an image

// By (colour, byte). In float32 also where real numbers are float64, so that backends see the same data.
using PixelValues = std::array<std::array<float, 256>, kColours>;

// Writes the number of each of `count` bytes to `to`, as numbers of type `real`. The first byte is a red one.
void spread_pixels(const std::uint8_t* from, size_t count, const PixelValues& values, ElementType real, void* to,
                   int threads);

}  // namespace lockstep::trainer::core
