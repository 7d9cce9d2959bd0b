// Numbers from text: all of the text is the number, and it is within bounds.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "operator/base/result.h"

namespace lockstep {

// What as_number() does, for the widest types.
std::optional<std::int64_t> as_signed(std::string_view text, int base);
std::optional<std::uint64_t> as_unsigned(std::string_view text, int base);
std::optional<double> as_real(std::string_view text);

// The number that all of `text` is: digits of `base` (2 to 36, a double: 10), behind a "-" where `Number` has a sign. A
// double may have a fraction and an exponent, and is finite. White space, a "+", a prefix such as 0x and an empty text
// are no part of a number. Empty otherwise, and if the number does not fit. No allocation. Any thread.
template <typename Number>
std::optional<Number> as_number(std::string_view text, int base = 10) {
  static_assert(std::is_same_v<Number, double> || (std::is_integral_v<Number> && !std::is_same_v<Number, bool>));
  if constexpr (std::is_floating_point_v<Number>) {
    return as_real(text);
  } else {
    const auto wide = [&] {
      if constexpr (std::is_signed_v<Number>) {
        return as_signed(text, base);
      } else {
        return as_unsigned(text, base);
      }
    }();
    return wide && std::in_range<Number>(*wide) ? std::optional(static_cast<Number>(*wide)) : std::nullopt;
  }
}

// What parse_number() does, for the widest types.
Result<std::int64_t> parse_signed(std::string_view text, std::int64_t least, std::int64_t most);
Result<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t least, std::uint64_t most);
Result<double> parse_real(std::string_view text, double least, double most);

// The number that as_number() finds in decimal, within [least, most]. kInvalid otherwise: the message quotes the text,
// of a long one the beginning, and says the bounds. No allocation without an error. Any thread.
template <typename Number>
Result<Number> parse_number(std::string_view text, Number least = std::numeric_limits<Number>::lowest(),
                            Number most = std::numeric_limits<Number>::max()) {
  static_assert(std::is_same_v<Number, double> || (std::is_integral_v<Number> && !std::is_same_v<Number, bool>));
  if constexpr (std::is_floating_point_v<Number>) {
    return parse_real(text, least, most);
  } else if constexpr (std::is_signed_v<Number>) {
    LOCKSTEP_TRY(const std::int64_t number, parse_signed(text, least, most));
    return static_cast<Number>(number);
  } else {
    LOCKSTEP_TRY(const std::uint64_t number, parse_unsigned(text, least, most));
    return static_cast<Number>(number);
  }
}

}  // namespace lockstep
