#include "operator/api/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace lockstep::api {
namespace {

constexpr __int128 kNano = 1'000'000'000;
constexpr __int128 kLimit = kNano * std::numeric_limits<std::int64_t>::max();
constexpr int kDigits = 28;  // significant digits that are kept; with a nano unit they reach beyond kLimit

struct Scale {
  int binary = 0;   // powers of 1024
  int decimal = 0;  // powers of 10
};

struct Suffix {
  std::string_view text;
  Scale scale;
};

constexpr std::array<Suffix, 16> kSuffixes{{{"", {0, 0}},
                                            {"n", {0, -9}},
                                            {"u", {0, -6}},
                                            {"m", {0, -3}},
                                            {"k", {0, 3}},
                                            {"M", {0, 6}},
                                            {"G", {0, 9}},
                                            {"T", {0, 12}},
                                            {"P", {0, 15}},
                                            {"E", {0, 18}},
                                            {"Ki", {1, 0}},
                                            {"Mi", {2, 0}},
                                            {"Gi", {3, 0}},
                                            {"Ti", {4, 0}},
                                            {"Pi", {5, 0}},
                                            {"Ei", {6, 0}}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::optional<Scale> scale_of(std::string_view suffix) {
  for (const Suffix& known : kSuffixes) {
    if (suffix == known.text) return known.scale;
  }
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
  suffix.remove_prefix(1);
  const bool negative = suffix[0] == '-';
  if (suffix[0] == '-' || suffix[0] == '+') suffix.remove_prefix(1);
  if (suffix.empty() || !std::all_of(suffix.begin(), suffix.end(), is_digit)) return std::nullopt;
  int exponent = 0;
  for (const char c : suffix) exponent = std::min(exponent * 10 + (c - '0'), 1000);
  return Scale{0, negative ? -exponent : exponent};
}

// `value` * `factor`, at most one more than the limit, so that a later division cannot bring it back by chance.
__int128 times(__int128 value, int factor) {
  return value > kLimit * 1024 / factor ? kLimit * 1024 : value * factor;
}

}  // namespace

Result<Quantity> Quantity::parse(std::string_view text) {
  const Error bad =
      fail(ErrorCode::kInvalid, fmt::format("'{}' is not a quantity such as 2, 500m or 16Gi", text.substr(0, 64)));
  std::string_view rest = text;
  const bool negative = !rest.empty() && rest[0] == '-';
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
  __int128 value = 0;
  int digits = 0, decimal = 0;
  bool any = false, point = false, inexact = false;
  for (; !rest.empty() && (is_digit(rest[0]) || (rest[0] == '.' && !point)); rest.remove_prefix(1)) {
    if (rest[0] == '.') {
      point = true;
      continue;
    }
    any = true;
    if (digits < kDigits) {
      value = value * 10 + (rest[0] - '0');
      digits += value != 0 ? 1 : 0;
      decimal -= point ? 1 : 0;
    } else {
      inexact = inexact || rest[0] != '0';
      decimal += point ? 0 : 1;
    }
  }
  const auto scale = scale_of(rest);
  if (!any || !scale) return bad;
  decimal += scale->decimal + 9;
  for (int i = 0; i < scale->binary; ++i) value = times(value, 1024);
  for (; decimal > 0 && value != 0; --decimal) value = times(value, 10);
  for (; decimal < 0 && value != 0; ++decimal) {
    inexact = inexact || value % 10 != 0;
    value /= 10;
  }
  value = std::min(value + (inexact ? 1 : 0), kLimit);
  Quantity quantity;
  quantity.nano_ = negative ? -value : value;
  return quantity;
}

std::int64_t Quantity::ceil() const {
  return static_cast<std::int64_t>(nano_ / kNano + (nano_ % kNano > 0 ? 1 : 0));
}

std::int64_t Quantity::ceil_milli() const {
  constexpr __int128 kMilli = kNano / 1000;
  constexpr __int128 kLargest = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::clamp(nano_ / kMilli + (nano_ % kMilli > 0 ? 1 : 0), -kLargest, kLargest));
}

Quantity& Quantity::operator+=(const Quantity& other) {
  nano_ = std::min(nano_ + other.nano_, kLimit);
  return *this;
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<const char*, 7> kUnits{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

}  // namespace lockstep::api
