// What a block of numbers is: element type and shape. Memory belongs to arenas (program.h, state.h), never to a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::trainer::core {

enum class ElementType : std::uint8_t { kFloat32, kFloat64, kInt32, kInt64 };

// Bytes of one element.
constexpr size_t size_of(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kInt32 ? 4 : 8;
}

// Every tensor of an arena starts at a multiple of this many bytes (a cache line; also what vector loads like).
inline constexpr size_t kAlignment = 64;

constexpr size_t align_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

// Dimensions from the slowest to the fastest; row-major, without gaps.
using Shape = std::vector<std::int64_t>;

inline std::int64_t count_of(const Shape& shape) {
  std::int64_t count = 1;
  for (auto dimension : shape) count *= dimension;
  return count;
}

}  // namespace lockstep::trainer::core
