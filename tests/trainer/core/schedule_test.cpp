#include "trainer/core/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::trainer::core {
namespace {

TEST(Schedule, warms_up_and_follows_a_cosine) {
  const Schedule schedule{
      .peak = 2.0, .warmup_steps = 10, .decay = CosineDecay{.total_steps = 110, .final_share = 0.1}};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 2.0);
  for (std::int64_t step = 10; step <= 110; ++step) {
    double t = static_cast<double>(step - 10) / 100;
    EXPECT_NEAR(learning_rate(schedule, step), 2.0 * (0.1 + 0.9 * 0.5 * (1 + std::cos(std::acos(-1.0) * t))), 1e-11);
  }
  EXPECT_NEAR(learning_rate(schedule, 1000), 0.2, 1e-12);
}

// Rates worked out by hand. The step is the number of committed ones.
struct Case {
  const char* name;
  Schedule schedule;
  std::int64_t step;
  double rate;
};

const Case kCases[] = {
    {"constant", {.peak = 0.5}, 12345, 0.5},
    {"constant, half-way through the warm-up", {.peak = 0.8, .warmup_steps = 4}, 1, 0.4},
    {"constant after the warm-up", {.peak = 0.8, .warmup_steps = 4}, 4, 0.8},
    {"cosine without steps after the warm-up", {.peak = 0.5, .warmup_steps = 9, .decay = CosineDecay{9}}, 12345, 0.5},
    {"cosine at the middle", {.peak = 1, .decay = CosineDecay{.total_steps = 8, .final_share = 0}}, 4, 0.5},
    {"step in the warm-up", {.peak = 1, .warmup_steps = 4, .decay = StepDecay{{2}, 0.1}}, 2, 0.75},
    {"step before its milestone", {.peak = 1, .decay = StepDecay{{30, 60}, 0.5}}, 29, 1},
    {"step at its milestone", {.peak = 1, .decay = StepDecay{{30, 60}, 0.5}}, 30, 0.5},
    {"step between milestones", {.peak = 1, .decay = StepDecay{{60, 30}, 0.5}}, 59, 0.5},
    {"step after all milestones", {.peak = 8, .decay = StepDecay{{30, 60}, 0.5}}, 1000, 2},
    {"linear at the start", {.peak = 3, .decay = PolynomialDecay{.total_steps = 10, .power = 1}}, 0, 3},
    {"linear", {.peak = 3, .decay = PolynomialDecay{.total_steps = 10, .power = 1}}, 4, 1.8},
    {"quadratic", {.peak = 3, .decay = PolynomialDecay{.total_steps = 10, .power = 2}}, 5, 0.75},
    {"quadratic after a warm-up",
     {.peak = 16, .warmup_steps = 5, .decay = PolynomialDecay{.total_steps = 13, .power = 2}},
     7,
     9},
    {"quadratic to a share", {.peak = 1, .decay = PolynomialDecay{10, 2, 0.2}}, 5, 0.4},
    {"quadratic at its end", {.peak = 1, .decay = PolynomialDecay{10, 2, 0}}, 10, 0},
    {"quadratic after its end", {.peak = 1, .decay = PolynomialDecay{10, 2, 0.2}}, 1000, 0.2},
    {"quadratic without steps", {.peak = 1, .decay = PolynomialDecay{}}, 7, 1},
};

TEST(Schedule, has_the_rates_of_its_table) {
  for (const Case& c : kCases) EXPECT_NEAR(learning_rate(c.schedule, c.step), c.rate, 1e-12) << c.name;
}

}  // namespace
}  // namespace lockstep::trainer::core
