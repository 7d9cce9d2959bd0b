#include "operator/base/timestamp.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>

namespace lockstep {
namespace {

using std::chrono::duration_cast;
using std::chrono::floor;

std::string format_seconds(WallTime time) {
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const auto seconds = duration_cast<std::chrono::seconds>(floor<std::chrono::seconds>(time) - day).count();
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), seconds / 3600,
                     seconds / 60 % 60, seconds % 60);
}

// What a WallTime can hold in nanoseconds, whatever the offset.
constexpr int kFirstYear = 1678, kLastYear = 2261;

// Reads exactly `width` digits at `at`; -1 if they are missing.
int digits(std::string_view text, size_t at, size_t width) {
  if (at + width > text.size()) return -1;
  int value = 0;
  for (size_t i = at; i < at + width; ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

}  // namespace

std::string format_timestamp(WallTime time) {
  return format_seconds(time) + "Z";
}

std::string format_micro_timestamp(WallTime time) {
  const auto whole = floor<std::chrono::seconds>(time);
  const auto micros = duration_cast<std::chrono::microseconds>(time - whole).count();
  return fmt::format("{}.{:06}Z", format_seconds(time), micros);
}

Result<WallTime> parse_timestamp(std::string_view text) {
  const Error bad{ErrorCode::kInvalid, fmt::format("'{}' is not an RFC 3339 time", text.substr(0, 64))};
  const int year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
  const int hour = digits(text, 11, 2), minute = digits(text, 14, 2), second = digits(text, 17, 2);
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't') || text[13] != ':' ||
      text[16] != ':') {
    return bad;
  }
  if (year < 0 || month < 0 || day < 0 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
      second > 60) {
    return bad;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || year < kFirstYear || year > kLastYear) return bad;
  size_t at = 19;
  std::int64_t nanos = 0;
  if (text[at] == '.') {
    std::int64_t scale = 100'000'000;
    size_t count = 0;
    for (++at; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at, ++count) {
      nanos += (text[at] - '0') * scale;
      scale /= 10;
    }
    if (count == 0 || count > 9) return bad;
  }
  if (at >= text.size()) return bad;
  std::chrono::minutes offset{0};
  if (text[at] == 'Z' || text[at] == 'z') {
    if (at + 1 != text.size()) return bad;
  } else {
    const int offset_hours = digits(text, at + 1, 2), offset_minutes = digits(text, at + 4, 2);
    if ((text[at] != '+' && text[at] != '-') || at + 6 != text.size() || text[at + 3] != ':' || offset_hours < 0 ||
        offset_hours > 23 || offset_minutes < 0 || offset_minutes > 59) {
      return bad;
    }
    offset = std::chrono::hours(offset_hours) + std::chrono::minutes(offset_minutes);
    if (text[at] == '-') offset = -offset;
  }
  const auto time = std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
                    std::chrono::seconds(second) - offset;
  return WallTime(duration_cast<WallTime::duration>(time.time_since_epoch() + std::chrono::nanoseconds(nanos)));
}

}  // namespace lockstep
