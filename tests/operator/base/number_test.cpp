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
