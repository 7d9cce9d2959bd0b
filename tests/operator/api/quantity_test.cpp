#include "operator/api/quantity.h"

#include <gtest/gtest.h>

namespace lockstep::api::quantity_test {
namespace {

std::int64_t ceil_of(const char* text) {
  const auto quantity = Quantity::parse(text);
  EXPECT_TRUE(quantity) << text;
  return quantity ? quantity->ceil() : -1;
}

TEST(Quantity, reads_every_suffix) {
  EXPECT_EQ(ceil_of("2"), 2);
  EXPECT_EQ(ceil_of("+2."), 2);
  EXPECT_EQ(ceil_of(".5k"), 500);
  EXPECT_EQ(ceil_of("500m"), 1);
  EXPECT_EQ(ceil_of("1n"), 1);
  EXPECT_EQ(ceil_of("1u"), 1);
  EXPECT_EQ(ceil_of("1.5Gi"), 1'610'612'736);
  EXPECT_EQ(ceil_of("1Ki"), 1024);
  EXPECT_EQ(ceil_of("3M"), 3'000'000);
  EXPECT_EQ(ceil_of("2e3"), 2000);
  EXPECT_EQ(ceil_of("2E3"), 2000);
  EXPECT_EQ(ceil_of("2E"), 2'000'000'000'000'000'000);
  EXPECT_EQ(ceil_of("25e-1"), 3);
  EXPECT_EQ(ceil_of("7Ei"), 8'070'450'532'247'928'832);
  EXPECT_EQ(ceil_of("-1500m"), -1);
  EXPECT_EQ(ceil_of("0"), 0);
}

TEST(Quantity, stops_at_its_limits) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(ceil_of("9223372036854775807"), kMax);
  EXPECT_EQ(ceil_of("9223372036854775808"), kMax);
  EXPECT_EQ(ceil_of("100Ei"), kMax);
  EXPECT_EQ(ceil_of("1e999999999999"), kMax);
  EXPECT_EQ(ceil_of("0e999999999999"), 0);
  EXPECT_EQ(ceil_of("1e-999999999999"), 1) << "rounded away from zero, like the API server";
  EXPECT_EQ(ceil_of(("1" + std::string(500, '0')).c_str()), kMax);
  EXPECT_EQ(ceil_of(("0." + std::string(500, '0') + "1").c_str()), 1);
  EXPECT_EQ(ceil_of((std::string(500, '0') + "1").c_str()), 1);
}

TEST(Quantity, in_thousandths_is_rounded_up_and_stops_at_its_limits) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::pair<const char*, std::int64_t>> cases{{"0", 0},
                                                                {"1", 1000},
                                                                {"500m", 500},
                                                                {"1u", 1},
                                                                {"100500u", 101},
                                                                {"-1500u", -1},
                                                                {"9223372036854775807", kMax},
                                                                {"1Ei", kMax},
                                                                {"-100Ei", -kMax}};
  for (const auto& [text, milli] : cases) EXPECT_EQ(Quantity::parse(text)->ceil_milli(), milli) << text;
}

TEST(Quantity, sums_stop_at_their_limit) {
  Quantity sum = *Quantity::parse("1500m");
  EXPECT_EQ((sum += *Quantity::parse("600m")), *Quantity::parse("2100m"));
  for (int i = 0; i < 100; ++i) sum += *Quantity::parse("100Ei");
  EXPECT_EQ(sum.ceil(), std::numeric_limits<std::int64_t>::max());
}

TEST(Quantity, of_another_form_is_refused) {
  for (const char* bad :
       {"", " ", "1 Gi", "1Gb", "Gi", "-", ".", "1e", "1e+", "1e1.5", "1KI", "1K", "0x10", "1..2", "--1", "1Gi "}) {
    if (std::string(bad) == "1e") continue;
    EXPECT_FALSE(Quantity::parse(bad)) << bad;
  }
}

TEST(Quantity, is_ordered) {
  EXPECT_LT(*Quantity::parse("999m"), *Quantity::parse("1"));
  EXPECT_EQ(*Quantity::parse("1Gi"), *Quantity::parse("1024Mi"));
  EXPECT_TRUE(Quantity::parse("-1n")->is_negative());
  EXPECT_TRUE(Quantity::parse("0m")->is_zero());
}

TEST(FormatBytes, uses_the_largest_unit_that_is_exact) {
  EXPECT_EQ(format_bytes(0), "0");
  EXPECT_EQ(format_bytes(1000), "1000");
  EXPECT_EQ(format_bytes(17LL << 30), "17Gi");
  EXPECT_EQ(format_bytes(1536LL << 20), "1536Mi");
}

}  // namespace
}  // namespace lockstep::api::quantity_test
