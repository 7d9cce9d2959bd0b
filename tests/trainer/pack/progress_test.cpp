#include "trainer/pack/progress.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep::trainer::pack {
namespace {

TEST(Progress, says_what_is_done_how_fast_and_for_how_long) {
  EXPECT_EQ(progress_text(0, 10, 0, 1), "0 of 10 images (0 %)  0.0 MB");
  EXPECT_EQ(progress_text(1200, 10000, 35'200'000, 3), "1200 of 10000 images (12 %)  35.2 MB  400 images/s  eta 0:22");
  EXPECT_EQ(progress_text(100, 10000, 1'000'000, 10), "100 of 10000 images (1 %)  1.0 MB  10 images/s  eta 16:30");
}

TEST(Progress, is_silent_where_no_terminal_is) {
  std::array<char, 64> text{};
  std::FILE* to = ::fmemopen(text.data(), text.size(), "w");
  {
    Progress progress(to, false, 10);
    for (int i = 0; i < 10; ++i) progress.update(i, 1);
  }
  EXPECT_EQ(std::ftell(to), 0);
  std::fclose(to);
}

}  // namespace
}  // namespace lockstep::trainer::pack
