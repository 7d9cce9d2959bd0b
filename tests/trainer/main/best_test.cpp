#include "trainer/best.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::trainer {
namespace {

TEST(Best, counts_the_evaluations_since_the_best_one) {
  Best best;
  best.count(10, 2.0);
  best.count(20, 2.0);
  best.count(30, 2.5);
  EXPECT_EQ(best, (Best{.step = 10, .loss = 2.0, .counted = 30, .misses = 2}));
  best.count(40, 1.5);
  EXPECT_EQ(best, (Best{.step = 40, .loss = 1.5, .counted = 40, .misses = 0}));
}

TEST(Best, an_evaluation_that_is_repeated_counts_once) {
  Best best;
  best.count(10, 2.0);
  best.count(20, 3.0);
  const Best before = best;
  best.count(20, 1.0);
  best.count(10, 1.0);
  EXPECT_EQ(best, before);
}

TEST(Best, the_initial_state_and_a_loss_that_is_not_a_number_are_not_best) {
  Best best;
  best.count(0, 1.0);
  EXPECT_EQ(best, Best());
  best.count(10, std::nan(""));
  EXPECT_EQ(best.step, -1);
  EXPECT_EQ(best.misses, 1);
}

TEST(Best, comes_back_from_its_text_and_from_no_other) {
  const Best best{.step = 40, .loss = 0.1, .counted = 60, .misses = 2};
  EXPECT_EQ(best_from(to_text(best)), best);
  for (const char* text : {"", "[]", "{}", R"({"step":1})", R"({"step":"1","held_out_loss":1,"counted":1,"misses":0})",
                           R"({"step":1,"held_out_loss":null,"counted":1,"misses":0})"}) {
    EXPECT_EQ(best_from(text), Best()) << text;
  }
}

}  // namespace
}  // namespace lockstep::trainer
