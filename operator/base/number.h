// Numbers from text: all of the text is the number, and it is within bounds.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "operator/base/result.h"

namespace lockstep {

// What parse_number() does, for the widest types.
Result<std::int64_t> parse_signed(std::string_view text, std::int64_t least, std::int64_t most);
Result<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t least, std::uint64_t most);
Result<double> parse_real(std::string_view text, double least, double most);

// The number that `text` is in decimal, within [least, most]: digits, behind a "-" where `Number` has a sign. A double
// may have a fraction and an exponent, and is finite. White space, a "+" and an empty text are no part of a number.
// kInvalid otherwise: the message quotes the text, of a long one the beginning, and says the bounds. No allocation
// without an error. Any thread.
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
