#include "operator/api/yaml_scalar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "operator/base/number.h"

namespace lockstep::api {
namespace {

using Json = nlohmann::json;

template <size_t n>
bool is_one_of(const std::string& text, const std::array<std::string_view, n>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

constexpr std::array<std::string_view, 5> kNull{"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 11> kTrue{"y",    "Y",    "yes", "Yes", "YES", "true",
                                                 "True", "TRUE", "on",  "On",  "ON"};
constexpr std::array<std::string_view, 11> kFalse{"n",     "N",     "no",  "No",  "NO", "false",
                                                  "False", "FALSE", "off", "Off", "OFF"};

// Integers as Go reads them with base 0: decimal, 0x, 0o (or a leading 0), 0b.
std::optional<Json> integer(std::string_view digits, bool negative) {
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char mark = digits[1];
    base = mark == 'x' || mark == 'X' ? 16 : mark == 'b' || mark == 'B' ? 2 : 8;
    digits.remove_prefix(base != 8 || mark == 'o' || mark == 'O' ? 2 : 1);
  }
  const auto value = as_number<std::uint64_t>(digits, base);
  if (!value) return std::nullopt;
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!negative) return *value <= kMax ? Json(static_cast<std::int64_t>(*value)) : Json(*value);
  if (*value > kMax + 1) return std::nullopt;
  return Json(static_cast<std::int64_t>(0 - *value));
}

// [digits][.digits][e[+-]digits], with at least one digit in front of the exponent.
std::optional<Json> real(const std::string& text) {
  size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const auto skip_digits = [&] {
    const size_t from = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - from;
  };
  size_t mantissa = skip_digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    mantissa += skip_digits();
  }
  if (mantissa == 0) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (skip_digits() == 0) return std::nullopt;
  }
  if (at != text.size()) return std::nullopt;
  const auto value = as_number<double>(std::string_view(text).substr(text[0] == '+' ? 1 : 0));
  if (!value) return std::nullopt;
  constexpr double kExact = 9007199254740992.0;  // 2^53: up to here a whole number is written without a fraction
  if (*value == std::floor(*value) && std::abs(*value) < kExact) return Json(static_cast<std::int64_t>(*value));
  return Json(*value);
}

}  // namespace

Json resolve_plain_scalar(const std::string& text) {
  if (is_one_of(text, kNull)) return nullptr;
  if (is_one_of(text, kTrue)) return true;
  if (is_one_of(text, kFalse)) return false;
  const bool is_signed = text[0] == '-' || text[0] == '+';
  const char first = text[is_signed && text.size() > 1 ? 1 : 0];
  if ((first < '0' || first > '9') && first != '.') return text;
  std::string plain = text;
  plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
  if (first != '.') {
    if (auto value = integer(std::string_view(plain).substr(is_signed ? 1 : 0), text[0] == '-')) return *value;
  }
  if (auto value = real(plain)) return *value;
  return text;
}

size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned char first = byte(i);
    const size_t length = first < 0x80   ? 1
                          : first < 0xC2 ? 0
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF5 ? 4
                                         : 0;
    if (length == 0 || i + length > text.size()) return i;
    for (size_t j = 1; j < length; ++j) {
      if ((byte(i + j) & 0xC0) != 0x80) return i;
    }
    // Overlong forms, surrogates, and values beyond the last code point: the second byte shows them.
    if (first == 0xE0 && byte(i + 1) < 0xA0) return i;
    if (first == 0xED && byte(i + 1) > 0x9F) return i;
    if (first == 0xF0 && byte(i + 1) < 0x90) return i;
    if (first == 0xF4 && byte(i + 1) > 0x8F) return i;
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace lockstep::api
