// The parts of a loop that threads share (trainer/core/parallel.h).
#include "trainer/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/trainer/core/threads.h"

namespace lockstep::trainer::core {
namespace {

TEST(Parallel, each_element_is_in_one_part_and_no_part_is_empty) {
  for (const int threads : testing::thread_counts()) {
    for (const size_t count : {size_t{0}, size_t{1}, kBlock, kBlock + 1, 2 * kBlock, 2 * kBlock + 1, 7 * kBlock + 3}) {
      std::vector<int> parts(count, 0);
      std::atomic<int> calls = 0;
      for_parts(count, threads, [&](size_t begin, size_t end) {
        ++calls;
        EXPECT_LT(begin, end);
        for (size_t i = begin; i < end; ++i) ++parts[i];
      });
      EXPECT_LE(calls, threads) << count << " elements";
      EXPECT_EQ(parts, std::vector<int>(count, 1)) << count << " elements, " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer::core
