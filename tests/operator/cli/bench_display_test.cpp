#include "operator/cli/bench_display.h"

#include <gtest/gtest.h>

namespace lockstep::cli::bench_display_test {
namespace {

TEST(BenchDisplay, only_rank_0_speaks_and_only_of_the_speed) {
  EXPECT_EQ(contract_line("[0] 10\timages/sec: 154.4 +/- 0.7 (jitter = 4.0)\t2.346"),
            "10\timages/sec: 154.4 +/- 0.7 (jitter = 4.0)\t2.346");
  EXPECT_EQ(contract_line("[0] total images/sec: 308.27"), "total images/sec: 308.27");
  EXPECT_EQ(contract_line("[0] " + std::string(64, '-')), std::string(64, '-'));
  for (const char* other : {"[1] 10\timages/sec: 154.4 +/- 0.7 (jitter = 4.0)\t2.346", "[0] step 1/10  loss 2.3",
                            "10\timages/sec: 154.4", "[0] result {\"a\":1}", "[0] ----", ""}) {
    EXPECT_EQ(contract_line(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace lockstep::cli::bench_display_test
