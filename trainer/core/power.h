// Powers with whole exponents.
#pragma once

#include <cstdint>

namespace lockstep::trainer::core {

// base^exponent by squaring, for exponents from 0: bitwise identical everywhere, which a library's pow() does not
// promise.
constexpr double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

}  // namespace lockstep::trainer::core
