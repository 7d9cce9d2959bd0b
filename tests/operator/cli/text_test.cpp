#include "operator/cli/text.h"

#include <gtest/gtest.h>

namespace lockstep::cli::text_test {
namespace {

TEST(Text, columns_of_a_table_are_as_wide_as_their_widest_cell) {
  EXPECT_EQ(table({{"A", "LONG"}, {"wide cell", "x"}, {"é", ""}}), "A          LONG\nwide cell  x\né\n");
  EXPECT_EQ(table({{"a\nb"}}), "a b\n");
  EXPECT_EQ(table({}), "");
}

TEST(Text, durations_read_like_a_clock) {
  for (const auto& [seconds, text] : std::vector<std::pair<double, std::string>>{
           {-3, "0:00"}, {0.4, "0:00"}, {42, "0:42"}, {725, "12:05"}, {3725, "1:02:05"}}) {
    EXPECT_EQ(clock_time(seconds), text);
  }
  EXPECT_EQ(age(119), "119s");
  EXPECT_EQ(age(121), "2m");
  EXPECT_EQ(age(86'400 * 3), "3d");
}

TEST(Text, a_near_miss_finds_its_name_and_a_far_one_does_not) {
  const std::vector<std::string> names = {"run", "validate", "submit", "status", "logs", "delete", "completion"};
  EXPECT_EQ(nearest("rnu", names), "run");
  EXPECT_EQ(nearest("valdiate", names), "validate");
  EXPECT_EQ(nearest("stauts", names), "status");
  EXPECT_EQ(nearest("log", names), "logs");
  EXPECT_EQ(nearest("frobnicate", names), "");
  EXPECT_EQ(nearest("", names), "");
}

TEST(Text, cutting_keeps_characters_whole) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(shortened("ééééé", 8), "éé...");
}

TEST(Text, output_of_a_program_cannot_move_the_cursor) {
  EXPECT_EQ(printable("a\x1b[2Jb\tc\nd\x7f"), "a?[2Jb\tc\nd?");
}

}  // namespace
}  // namespace lockstep::cli::text_test
