#include "operator/base/number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

#include "operator/base/utf8.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostQuoted = 64;

// `base`: none for a double.
template <typename Number, typename... Base>
std::optional<Number> whole(std::string_view text, Base... base) {
  Number number{};
  const char* const all = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), all, number, base...);
  return error == std::errc() && end == all ? std::optional(number) : std::nullopt;
}

template <typename Number>
Result<Number> within(std::optional<Number> number, std::string_view text, Number least, Number most,
                      const char* kind) {
  if (number && *number >= least && *number <= most) return *number;
  return fail(ErrorCode::kInvalid, fmt::format("'{}{}' is not a {} from {} to {}", whole_characters(text, kMostQuoted),
                                               text.size() > kMostQuoted ? "..." : "", kind, least, most));
}

}  // namespace

std::optional<std::int64_t> as_signed(std::string_view text, int base) {
  return whole<std::int64_t>(text, base);
}

std::optional<std::uint64_t> as_unsigned(std::string_view text, int base) {
  return whole<std::uint64_t>(text, base);
}

std::optional<double> as_real(std::string_view text) {
  const auto number = whole<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

Result<std::int64_t> parse_signed(std::string_view text, std::int64_t least, std::int64_t most) {
  return within(as_signed(text, 10), text, least, most, "whole number");
}

Result<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t least, std::uint64_t most) {
  return within(as_unsigned(text, 10), text, least, most, "whole number");
}

Result<double> parse_real(std::string_view text, double least, double most) {
  return within(as_real(text), text, least, most, "number");
}

}  // namespace lockstep
