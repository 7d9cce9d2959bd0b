// Whole training steps of models on the CUDA backend under test, beside those of `cpu`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "tests/sanitizer.h"
#include "tests/trainer/backend/cuda/recipes.h"
#include "tests/trainer/backend/cuda/under_test.h"
#include "tests/trainer/core/gang.h"

namespace lockstep::trainer::training_test {
namespace {

using testing::GangResult;
using testing::mlp;
using testing::Recipe;
using testing::resnet18;
using testing::train;
using testing::transformer;

// Float32 in another order; dropout hides the same elements.
constexpr double kTolerance = 2e-4;
// A ReLU whose input is next to zero passes a gradient in one order and not in the other, and later steps differ by it.
// `cpu` and `ref` differ as much.
constexpr double kResNetTolerance = 2e-3;

void expect_losses_of_cpu(const char* name, const Recipe& cuda, const Recipe& cpu, int steps,
                          double tolerance = kTolerance) {
  const GangResult actual = train(cuda, 1, steps), expected = train(cpu, 1, steps);
  double worst = 0;
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    const double difference = std::fabs(actual.losses[i] - expected.losses[i]) / expected.losses[i];
    EXPECT_LT(difference, tolerance) << name << ", step " << i;
    worst = std::max(worst, difference);
  }
  EXPECT_NEAR(actual.held_out_loss, expected.held_out_loss, tolerance * expected.held_out_loss);
  std::printf("%s: %zu steps, largest relative difference of a loss %.1e\n", name, expected.losses.size(), worst);
}

constexpr int kSteps = sanitizer::steps(20);
constexpr std::int64_t kWidth = 64;  // of the transformers whose losses are compared

TEST(TrainingOnCuda, an_mlp_has_the_losses_of_cpu) {
  expect_losses_of_cpu("mlp", mlp(true, false), mlp(false, false), kSteps);
}

TEST(TrainingOnCuda, a_char_transformer_has_the_losses_of_cpu) {
  expect_losses_of_cpu("char-transformer", transformer(true, false, kWidth), transformer(false, false, kWidth),
                       sanitizer::steps(12));
}

TEST(TrainingOnCuda, a_resnet_has_the_losses_of_cpu) {
  expect_losses_of_cpu("resnet18", resnet18(true), resnet18(false), sanitizer::steps(12), kResNetTolerance);
}

Recipe in_tf32(Recipe recipe) {
  recipe.device = [](int) { return testing::gpu_in_tf32(); };
  return recipe;
}

// What 11 bits of each operand do to a loss.
constexpr double kTf32Tolerance = 1e-3;

TEST(TrainingInTf32, an_mlp_is_near_the_losses_of_cpu) {
  expect_losses_of_cpu("mlp", in_tf32(mlp(true, false)), mlp(false, false), kSteps, kTf32Tolerance);
}

TEST(TrainingInTf32, a_char_transformer_is_near_the_losses_of_cpu) {
  if (sanitizer::kOn) GTEST_SKIP() << "float32 shows a sanitizer the same code";
  expect_losses_of_cpu("char-transformer", in_tf32(transformer(true, false, kWidth)), transformer(false, false, kWidth),
                       12, kTf32Tolerance);
}

TEST(TrainingInTf32, a_resnet_is_near_the_losses_of_cpu) {
  if (sanitizer::kOn) GTEST_SKIP() << "the layers show a sanitizer each kernel, and the MLP each thread";
  expect_losses_of_cpu("resnet18", in_tf32(resnet18(true)), resnet18(false), 12,
                       8 * kTf32Tolerance);  // as in float32, a ReLU may pass another gradient
}

TEST(TrainingInTf32, deterministic_is_bitwise_identical_for_every_number_of_ranks) {
  const Recipe recipe = in_tf32(mlp(true, true));
  const int steps = sanitizer::steps(4);
  const GangResult one = train(recipe, 1, steps), two = train(recipe, 2, steps);
  EXPECT_EQ(two.losses, one.losses);
  for (const testing::Bytes& state : two.states) EXPECT_TRUE(state == one.states[0]);
  EXPECT_NE(train(mlp(true, true), 1, steps).losses, one.losses) << "float32 has other bits";
}

TEST(TrainingInTf32, a_state_of_float32_continues_and_the_other_way_round) {
  const Recipe wide = mlp(true, false), rounding = in_tf32(wide);
  const GangResult whole = train(wide, 1, 4);
  for (const auto& [first, second] : {std::pair(&wide, &rounding), {&rounding, &wide}}) {
    const GangResult rest = train(*second, 1, 2, train(*first, 1, 2).states[0]);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(rest.losses[i], whole.losses[2 + i], kTf32Tolerance * whole.losses[2 + i]);
  }
}

Recipe in_bfloat16(Recipe recipe) {
  recipe.device = [](int) { return testing::gpu_in_bfloat16(); };
  return recipe;
}

// What 8 bits of each activation do to a loss. Their errors are of either sign, so most of them cancel.
constexpr double kBfloat16Tolerance = 0x1.0p-7;

TEST(TrainingInBfloat16, an_mlp_is_near_the_losses_of_cpu) {
  expect_losses_of_cpu("mlp", in_bfloat16(mlp(true, false)), mlp(false, false), kSteps, kBfloat16Tolerance);
}

TEST(TrainingInBfloat16, a_char_transformer_is_near_the_losses_of_cpu) {
  expect_losses_of_cpu("char-transformer", in_bfloat16(transformer(true, false, kWidth)),
                       transformer(false, false, kWidth), sanitizer::steps(12), kBfloat16Tolerance);
}

TEST(TrainingInBfloat16, a_resnet_is_near_the_losses_of_cpu) {
  if (sanitizer::kOn) GTEST_SKIP() << "the layers show a sanitizer each kernel, and the MLP each thread";
  expect_losses_of_cpu("resnet18", in_bfloat16(resnet18(true)), resnet18(false), 12,
                       4 * kBfloat16Tolerance);  // as in float32, a ReLU may pass another gradient
}

TEST(TrainingInBfloat16, deterministic_is_bitwise_identical_for_every_number_of_ranks) {
  const Recipe recipe = in_bfloat16(mlp(true, true));
  const int steps = sanitizer::steps(4);
  const GangResult one = train(recipe, 1, steps), two = train(recipe, 2, steps);
  EXPECT_EQ(two.losses, one.losses);
  for (const testing::Bytes& state : two.states) EXPECT_TRUE(state == one.states[0]);
}

TEST(TrainingOnCuda, deterministic_is_bitwise_identical_for_every_number_of_ranks) {
  for (const Recipe& recipe : {mlp(true, true), transformer(true, true)}) {
    const int steps = sanitizer::steps(6);
    const GangResult one = train(recipe, 1, steps);
    for (const int ranks : {1, 2, 3}) {
      const GangResult many = train(recipe, ranks, steps);
      EXPECT_EQ(many.losses, one.losses) << ranks;
      EXPECT_EQ(many.norms, one.norms) << ranks;
      for (const testing::Bytes& state : many.states) EXPECT_TRUE(state == one.states[0]) << ranks << " ranks";
    }
  }
}

TEST(TrainingOnCuda, a_restart_from_the_middle_changes_no_bit) {
  const Recipe recipe = mlp(true, true);
  const int before = 2, after = 3;
  const testing::Bytes whole = train(recipe, 1, before + after).states[0], until = train(recipe, 2, before).states[0];
  EXPECT_TRUE(train(recipe, 1, after, until).states[0] == whole);
}

}  // namespace
}  // namespace lockstep::trainer::training_test
