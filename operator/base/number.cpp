#include "operator/base/number.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "operator/base/utf8.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostQuoted = 64;

template <typename Number>
Result<Number> parse(std::string_view text, Number least, Number most, const char* kind) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // The comparisons are false for a NaN.
  if (error == std::errc() && end == text.data() + text.size() && number >= least && number <= most) return number;
  return fail(ErrorCode::kInvalid, fmt::format("'{}{}' is not a {} from {} to {}", whole_characters(text, kMostQuoted),
                                               text.size() > kMostQuoted ? "..." : "", kind, least, most));
}

}  // namespace

Result<std::int64_t> parse_signed(std::string_view text, std::int64_t least, std::int64_t most) {
  return parse(text, least, most, "whole number");
}

Result<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t least, std::uint64_t most) {
  return parse(text, least, most, "whole number");
}

Result<double> parse_real(std::string_view text, double least, double most) {
  return parse(text, least, most, "number");
}

}  // namespace lockstep
