#include "trainer/core/planner.h"

#include <gtest/gtest.h>

#include <random>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {
namespace {

TEST(Planner, tensors_that_never_live_together_share_bytes) {
  MemoryPlan plan = plan_memory({{1000, {0, 1}}, {1000, {2, 3}}, {1000, {1, 2}}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 2 * align_up(1000, kAlignment));
}

TEST(Planner, a_tensor_between_the_two_spans_of_another_shares_its_bytes) {
  const MemoryPlan plan = plan_memory({{1000, {0, 1}, {6, 7}}, {1000, {2, 5}}, {1000, {5, 6}}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_NE(plan.offsets[0], plan.offsets[2]);
}

bool alive(const Lifetime& tensor, int position) {
  return (tensor.span.first <= position && position <= tensor.span.last) ||
         (tensor.again.first <= position && position <= tensor.again.last);
}

TEST(Planner, nothing_that_lives_together_overlaps) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 60; ++i) {
      const auto span = [&](int first) { return Span{first, first + static_cast<int>(random() % 10)}; };
      lifetimes.push_back({random() % 5000, span(static_cast<int>(random() % 40))});
      if (i % 3 == 0) lifetimes.back().again = span(lifetimes.back().span.last + 2 + static_cast<int>(random() % 20));
    }
    MemoryPlan plan = plan_memory(lifetimes);
    for (size_t a = 0; a < lifetimes.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % kAlignment, 0U);
      EXPECT_LE(plan.offsets[a] + lifetimes[a].bytes, plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        bool together = false;
        for (int at = 0; at < 90; ++at) together = together || (alive(lifetimes[a], at) && alive(lifetimes[b], at));
        bool apart = plan.offsets[a] + lifetimes[a].bytes <= plan.offsets[b] ||
                     plan.offsets[b] + lifetimes[b].bytes <= plan.offsets[a];
        EXPECT_TRUE(!together || apart);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer::core
