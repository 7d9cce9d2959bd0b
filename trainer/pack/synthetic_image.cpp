#include "trainer/pack/synthetic_image.h"

#include <algorithm>
#include <array>
#include <vector>

#include "trainer/core/random.h"

namespace lockstep::trainer::pack {

namespace {

// A grid of random heights with `cell` pixels between them, and straight lines from height to height.
struct Octave {
  std::int64_t cell = 1;    // a power of two
  std::int32_t height = 0;  // at most, up and down
};
constexpr std::array<Octave, 5> kLight{{{64, 70}, {32, 40}, {8, 36}, {2, 24}, {1, 8}}};
constexpr Octave kColour{32, 28};

// Adds the octave to plane (side, side).
void add(const Octave& octave, std::uint64_t key, std::int64_t side, std::vector<std::int32_t>& plane) {
  const std::int64_t cell = octave.cell, points = side / cell + 2;
  std::vector<std::int32_t> grid(static_cast<size_t>(points * points));
  for (size_t i = 0; i < grid.size(); i += 8) {
    std::uint64_t bits = core::derive(key, i);
    for (size_t k = i; k < std::min(i + 8, grid.size()); ++k, bits >>= 8) {
      grid[k] = static_cast<std::int32_t>(bits & 255) - 128;
    }
  }
  const auto divisor = static_cast<std::int32_t>(cell * cell * 128);
  for (std::int64_t y = 0; y < side; ++y) {
    const auto down = static_cast<std::int32_t>(y % cell), up = static_cast<std::int32_t>(cell) - down;
    const std::int32_t* above = grid.data() + y / cell * points;
    const std::int32_t* below = above + points;
    std::int32_t* row = plane.data() + y * side;
    for (std::int64_t x = 0; x < side; ++x) {
      const std::int64_t column = x / cell;
      const auto right = static_cast<std::int32_t>(x % cell), left = static_cast<std::int32_t>(cell) - right;
      const std::int32_t sum = up * (left * above[column] + right * above[column + 1]) +
                               down * (left * below[column] + right * below[column + 1]);
      row[x] += sum * octave.height / divisor;
    }
  }
}

}  // namespace

data::Image synthetic_image(std::uint64_t seed, std::uint64_t number, std::int64_t label, std::int64_t side) {
  const std::uint64_t key = core::derive(core::derive(seed, "image"), number);
  const std::uint64_t of_class = core::derive(core::derive(seed, "colour"), static_cast<std::uint64_t>(label));
  const auto values = static_cast<size_t>(side * side);
  std::vector<std::int32_t> light(values);
  for (const Octave& octave : kLight)
    add(octave, core::derive(key, static_cast<std::uint64_t>(octave.cell)), side, light);
  data::Image image{.height = side, .width = side};
  image.pixels.resize(values * 3);
  for (std::uint64_t channel = 0; channel < 3; ++channel) {
    std::vector<std::int32_t> plane = light;
    add(kColour, core::derive(core::derive(key, "channel"), channel), side, plane);
    const auto base = 64 + static_cast<std::int32_t>(core::derive(of_class, channel) % 128);
    for (size_t i = 0; i < values; ++i) {
      image.pixels[3 * i + channel] = static_cast<std::uint8_t>(std::clamp(base + plane[i], 0, 255));
    }
  }
  return image;
}

}  // namespace lockstep::trainer::pack
