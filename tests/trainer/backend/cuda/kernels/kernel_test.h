// What tests of kernels share: arrays that notice who writes around them, comparisons that a NaN cannot pass, and every
// order of threads.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/trainer/backend/cuda/emulator/emulator.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::cuda::testing {

// An array with guards on both sides. Guards and elements that nobody has written are signalling NaNs with a number of
// this array. A kernel that reads one shows a NaN in its results. One that writes what it has made of another array's
// guard changes this one's. Fails the test if a guard has changed when the array goes.
template <typename T>
class Guarded {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;

 public:
  explicit Guarded(size_t count) : unwritten_(next_pattern()), count_(count), bits_(count + 2 * kGuard, unwritten_) {}
  explicit Guarded(const std::vector<T>& values) : Guarded(values.size()) {
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(T));
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() {
    for (size_t i = 0; i < bits_.size(); ++i) {
      if (i == kGuard) i += count_;
      if (bits_[i] == unwritten_) continue;
      ADD_FAILURE() << "a kernel wrote around an array of " << count_ << " elements, at element "
                    << static_cast<std::ptrdiff_t>(i - kGuard);
      return;
    }
  }

  T* data() { return reinterpret_cast<T*>(bits_.data()) + kGuard; }
  std::vector<T> values() { return std::vector<T>(data(), data() + count_); }

 private:
  static constexpr size_t kGuard = 1024;

  static Bits next_pattern() {
    static std::uint64_t number = 0;
    ++number;
    if (sizeof(T) == 2) return static_cast<Bits>(0xff81 + number % 0x3e);
    return static_cast<Bits>((sizeof(T) == 4 ? 0xffa50000 : 0xfff4'0000'0000'0000) + (number & 0xffff));
  }

  Bits unwritten_;
  size_t count_;
  std::vector<Bits> bits_;
};

// `count` normal numbers, the same for the same key.
inline std::vector<float> numbers(size_t count, std::uint64_t key = 1) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(core::normal(key, i));
  return values;
}

// Each differs from the expected number by at most `tolerance` times the larger of 1 and its size. A NaN equals a NaN
// alone, and an infinity itself alone.
inline void expect_close(const std::vector<float>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = static_cast<double>(actual[i]), e = expected[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    if (std::isfinite(e) && std::fabs(a - e) <= tolerance * std::fmax(1, std::fabs(e))) continue;
    FAIL() << "element " << i << " of " << actual.size() << " is " << a << ", expected " << e;
  }
}

// Calls body() once for each order of threads.
inline void in_every_order(const std::function<void()>& body) {
  for (int order = 0; order < emulator::kOrders; ++order) {
    SCOPED_TRACE("order " + std::to_string(order));
    emulator::set_order(static_cast<emulator::Order>(order));
    body();
  }
  emulator::set_order(emulator::Order::kAscending);
}

inline void expect_success(CudaError error) {
  EXPECT_EQ(static_cast<int>(error), 0);
}

}  // namespace lockstep::trainer::cuda::testing
