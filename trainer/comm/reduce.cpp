#include "trainer/comm/reduce.h"

#include <cstdint>
#include <type_traits>

namespace lockstep::trainer::comm {
namespace {

template <typename T, typename Operation>
void apply(std::byte* into, const std::byte* from, size_t count, Operation operation) {
  T* __restrict a = static_cast<T*>(static_cast<void*>(into));
  const T* __restrict b = static_cast<const T*>(static_cast<const void*>(from));
  for (size_t i = 0; i < count; ++i) a[i] = operation(b[i], a[i]);
}

template <typename T>
void reduce_as(std::byte* into, const std::byte* from, size_t count, Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      apply<T>(into, from, count, [](T x, T y) { return static_cast<T>(x + y); });
      return;
    case Reduction::kMax:
      apply<T>(into, from, count, [](T x, T y) {
        if constexpr (std::is_floating_point_v<T>) {
          return (x > y || x != x) ? x : y;  // when y is NaN both comparisons fail and y stays
        } else {
          return x > y ? x : y;
        }
      });
      return;
    case Reduction::kBitOr:
      if constexpr (std::is_integral_v<T>) {
        apply<T>(into, from, count, [](T x, T y) { return static_cast<T>(x | y); });
      }
      return;
  }
}

}  // namespace

void reduce(std::byte* into, const std::byte* from, size_t count, DataType type, Reduction reduction) {
  switch (type) {
    case DataType::kFloat32:
      return reduce_as<float>(into, from, count, reduction);
    case DataType::kFloat64:
      return reduce_as<double>(into, from, count, reduction);
    case DataType::kInt64:
      // Sums of signed numbers must not overflow in C++; of unsigned ones they wrap, to the same 64-bit pattern.
      if (reduction == Reduction::kSum) return reduce_as<std::uint64_t>(into, from, count, reduction);
      return reduce_as<std::int64_t>(into, from, count, reduction);
    case DataType::kUint8:
      return reduce_as<std::uint8_t>(into, from, count, reduction);
  }
}

}  // namespace lockstep::trainer::comm
