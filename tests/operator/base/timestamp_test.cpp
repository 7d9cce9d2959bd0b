#include "operator/base/timestamp.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep {
namespace {

WallTime at(std::int64_t micros) {
  return WallTime(std::chrono::microseconds(micros));
}

TEST(Timestamp, is_written_in_whole_seconds_cut_off) {
  EXPECT_EQ(format_timestamp(at(1'763'642'096'999'999)), "2025-11-20T12:34:56Z");
}

TEST(Timestamp, micro_time_has_exactly_six_digits) {
  EXPECT_EQ(format_micro_timestamp(at(1'763'642'096'000'007)), "2025-11-20T12:34:56.000007Z");
}

TEST(Timestamp, before_1970_is_written_right) {
  EXPECT_EQ(format_micro_timestamp(at(-1)), "1969-12-31T23:59:59.999999Z");
}

TEST(Timestamp, offsets_and_fractions_are_read) {
  EXPECT_EQ(parse_timestamp("2025-11-20T14:34:56.5+02:00").value(), at(1'763'642'096'500'000));
  EXPECT_EQ(parse_timestamp("2025-11-20T12:34:56Z").value(), at(1'763'642'096'000'000));
}

TEST(Timestamp, anything_else_is_refused) {
  for (const char* text :
       {"", "Z", "2025-11-20", "2025-13-20T12:34:56Z", "2025-02-30T12:34:56Z", "2025-11-20T24:34:56Z",
        "2025-11-20T12:34:56", "2025-11-20T12:34:56.Z", "2025-11-20T12:34:56.1234567890Z", "2025-11-20T12:34:56+2:00",
        "2025-11-20T12:34:56Zx", "2025x11-20T12:34:56Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
        "2262-01-01T00:00:00Z"}) {
    EXPECT_FALSE(parse_timestamp(text).ok()) << text;
  }
}

TEST(Timestamp, a_written_time_parses_to_itself) {
  const unsigned seed = 20251120;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const WallTime time =
        at(std::uniform_int_distribution<std::int64_t>(-2'000'000'000'000'000, 7'000'000'000'000'000)(random));
    EXPECT_EQ(parse_timestamp(format_micro_timestamp(time)).value(), time);
  }
}

}  // namespace
}  // namespace lockstep
