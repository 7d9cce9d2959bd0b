// What a block of numbers is: element type, shape, role. Memory belongs to arenas (program.h, state.h), never to a
// tensor.
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

using TensorId = int;

enum class Role : std::uint8_t {
  kInput,       // written by the data loader, real or index
  kParameter,   // learnt; has a gradient
  kStatistic,   // persistent, changed by commit alone (running mean and variance); always float64
  kActivation,  // written by a node
};

enum class Number : std::uint8_t {
  kReal,   // float32 or float64, as the backend has it
  kIndex,  // int32
};

enum class Fill : std::uint8_t { kZero, kOne, kNormal };  // initial values; kNormal has `deviation`

struct Tensor {
  std::string name;  // unique for parameters and statistics: it names them in checkpoints
  Shape shape;
  Role role = Role::kActivation;
  Number number = Number::kReal;
  Fill fill = Fill::kZero;
  double deviation = 0;
  double weight = 0;          // kStatistic: of a new value in the running mean
  bool decay = false;         // weight decay applies (matrices, not biases or norms)
  bool has_gradient = false;  // something learnt lies before it and, in a finished graph, the loss after it
};

// Bytes of its values where real numbers are of type `real`.
inline size_t bytes_of(const Tensor& tensor, ElementType real) {
  return static_cast<size_t>(count_of(tensor.shape)) *
         size_of(tensor.number == Number::kIndex ? ElementType::kInt32 : real);
}

// Real number `index` of values of type `real` in memory of the host.
inline double real_at(const void* values, ElementType real, size_t index) {
  return real == ElementType::kFloat32 ? static_cast<double>(static_cast<const float*>(values)[index])
                                       : static_cast<const double*>(values)[index];
}

}  // namespace lockstep::trainer::core
