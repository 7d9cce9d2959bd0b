#include "operator/base/number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Whole {
  std::string text;
  std::int64_t least, most;
  std::optional<std::int64_t> number;
};

TEST(Number, a_whole_number_is_all_of_the_text_and_within_its_bounds) {
  const std::vector<Whole> table = {
      {"0", kLeast, kMost, 0},
      {"-0", kLeast, kMost, 0},
      {"007", 0, 7, 7},
      {"8", 0, 7, {}},
      {"-1", 0, 7, {}},
      {"-1", -1, -1, -1},
      {"9223372036854775807", kLeast, kMost, kMost},
      {"-9223372036854775808", kLeast, kMost, kLeast},
      {"9223372036854775808", kLeast, kMost, {}},
      {"-9223372036854775809", kLeast, kMost, {}},
      {"", kLeast, kMost, {}},
      {"-", kLeast, kMost, {}},
      {"+1", kLeast, kMost, {}},
      {" 1", kLeast, kMost, {}},
      {"1 ", kLeast, kMost, {}},
      {"1\n", kLeast, kMost, {}},
      {std::string("1\0", 2), kLeast, kMost, {}},
      {"1.0", kLeast, kMost, {}},
      {"1e3", kLeast, kMost, {}},
      {"0x10", kLeast, kMost, {}},
      {"nan", kLeast, kMost, {}},
  };
  for (const Whole& row : table) {
    const auto read = parse_number<std::int64_t>(row.text, row.least, row.most);
    ASSERT_EQ(read.ok(), row.number.has_value()) << "'" << row.text << "'";
    if (row.number) {
      EXPECT_EQ(*read, *row.number) << "'" << row.text << "'";
    }
  }
}

TEST(Number, the_bounds_of_a_narrow_type_are_those_of_its_values) {
  EXPECT_EQ(parse_number<std::uint16_t>("65535").value(), 65535);
  EXPECT_FALSE(parse_number<std::uint16_t>("65536"));
  EXPECT_FALSE(parse_number<std::uint16_t>("-1"));
  EXPECT_EQ(parse_number<int>("-2147483648").value(), std::numeric_limits<int>::min());
  EXPECT_FALSE(parse_number<int>("2147483648"));
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615").value(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(parse_number<std::uint64_t>("18446744073709551616"));
  EXPECT_FALSE(parse_number<std::uint64_t>("-1"));
}

TEST(Number, a_real_number_is_finite) {
  EXPECT_EQ(parse_number<double>("2.5").value(), 2.5);
  EXPECT_EQ(parse_number<double>("-1e3").value(), -1000);
  EXPECT_EQ(parse_number("0.5", 0.0, 0.5).value(), 0.5);
  EXPECT_FALSE(parse_number("0.51", 0.0, 0.5));
  for (const char* text : {"nan", "-nan", "inf", "-inf", "1e999", "", ".", "1.5x", " 1", "0x1p3"}) {
    EXPECT_FALSE(parse_number<double>(text)) << text;
  }
}

struct InBase {
  std::string text;
  int base;
  std::optional<std::uint64_t> number;
};

TEST(Number, the_digits_are_those_of_the_base) {
  const std::vector<InBase> table = {
      {"0", 2, 0},
      {"101", 2, 5},
      {"102", 2, {}},
      {"17", 8, 15},
      {"18", 8, {}},
      {"00000000000000ff", 16, 255},
      {"FF", 16, 255},
      {"ffffffffffffffff", 16, std::numeric_limits<std::uint64_t>::max()},
      {"10000000000000000", 16, {}},
      {"0xff", 16, {}},
      {"fg", 16, {}},
      {"-1", 16, {}},
      {"", 16, {}},
  };
  for (const InBase& row : table) {
    EXPECT_EQ(as_number<std::uint64_t>(row.text, row.base), row.number) << "'" << row.text << "' in " << row.base;
  }
  EXPECT_EQ(as_number<std::uint8_t>("ff", 16), 255);
  EXPECT_EQ(as_number<std::uint8_t>("100", 16), std::nullopt);
  EXPECT_EQ(as_number<int>("-80000000", 16), std::numeric_limits<int>::min());
  EXPECT_EQ(as_number<int>("80000000", 16), std::nullopt);
}

TEST(Number, without_an_error_a_number_is_all_of_the_text_too) {
  for (const char* text : {"", "-", "+1", " 1", "1 ", "1x", "1.0", "9223372036854775808"}) {
    EXPECT_EQ(as_number<std::int64_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(as_number<std::int64_t>("-9223372036854775808"), kLeast);
  for (const char* text : {"nan", "inf", "-inf", "1e999", "", ".", "1.5x", " 1"}) {
    EXPECT_EQ(as_number<double>(text), std::nullopt) << text;
  }
  EXPECT_EQ(as_number<double>("-2.5e1"), -25);
}

TEST(Number, an_error_quotes_the_text_and_says_the_bounds) {
  const auto port = parse_number("70000", 1, 65535);
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(port.error().message, "'70000' is not a whole number from 1 to 65535");
  EXPECT_EQ(parse_number("x", 0.0, 1e9).error().message, "'x' is not a number from 0 to 1000000000");
}

TEST(Number, an_error_quotes_the_beginning_of_a_long_text) {
  const auto read = parse_number<int>(std::string(1 << 20, '9'));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("'" + std::string(64, '9') + "...' is not"));
  EXPECT_LT(read.error().message.size(), 200u);
}

}  // namespace
}  // namespace lockstep
