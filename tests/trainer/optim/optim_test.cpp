#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/core/threads.h"
#include "trainer/core/digest.h"
#include "trainer/core/schedule.h"
#include "trainer/optim/host_update.h"
#include "trainer/optim/make_optimizer.h"

namespace lockstep::trainer::optim {
namespace {

TEST(Schedule, warms_up_and_follows_a_cosine) {
  const core::Schedule schedule{
      .peak = 2.0, .warmup_steps = 10, .decay = core::CosineDecay{.total_steps = 110, .final_share = 0.1}};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 2.0);
  for (std::int64_t step = 10; step <= 110; ++step) {
    double t = static_cast<double>(step - 10) / 100;
    EXPECT_NEAR(learning_rate(schedule, step), 2.0 * (0.1 + 0.9 * 0.5 * (1 + std::cos(std::acos(-1.0) * t))), 1e-11);
  }
  EXPECT_NEAR(learning_rate(schedule, 1000), 0.2, 1e-12);
}

TEST(Schedule, is_constant_without_steps_after_the_warm_up) {
  EXPECT_DOUBLE_EQ(core::learning_rate({.peak = 0.5}, 12345), 0.5);
  EXPECT_DOUBLE_EQ(core::learning_rate({.peak = 0.5, .warmup_steps = 9, .decay = core::CosineDecay{9}}, 12345), 0.5);
}

// Two segments of one element each: the first is a matrix.
class Update {
 public:
  Update() {
    layout.count = 32;
    layout.segments = {{.name = "weight", .offset = 0, .count = 1, .decay = true},
                       {.name = "bias", .offset = 16, .count = 1, .decay = false}};
  }
  // Returns the digest.
  std::uint64_t run(const core::Optimizer& optimizer, std::vector<double>& parameters,
                    const std::vector<double>& gradients, std::vector<std::vector<double>>& slots,
                    std::int64_t step) const {
    std::vector<void*> addresses;
    for (auto& slot : slots) addresses.push_back(slot.data());
    return update_on_host(optimizer,
                          {.layout = &layout,
                           .parameters = parameters.data(),
                           .gradients = gradients.data(),
                           .slots = addresses,
                           .gradient_scale = 0.5,
                           .step = step},
                          core::ElementType::kFloat64, 1);
  }
  core::Layout layout;
};

std::vector<double> arena(double first, double second) {
  std::vector<double> values(32);
  values[0] = first;
  values[16] = second;
  return values;
}

TEST(Sgd, follows_its_formula) {
  const core::Optimizer sgd{
      .rule = core::Sgd{.momentum = 0.9}, .schedule = {.peak = 0.1}, .matrices = {.weight_decay = 0.01}};
  Update update;
  auto p = arena(2, 2), g = arena(4, 4);
  std::vector<std::vector<double>> slots = {arena(1, 1)};
  const std::uint64_t digest = update.run(sgd, p, g, slots, 0);
  EXPECT_EQ(digest, core::digest_of_array(0, &p[0], 1, 8) + core::digest_of_array(1, &slots[0][0], 1, 8) +
                        core::digest_of_array(2, &p[16], 1, 8) + core::digest_of_array(3, &slots[0][16], 1, 8));
  EXPECT_DOUBLE_EQ(slots[0][0], 0.9 * 1 + (4 * 0.5 + 0.01 * 2));
  EXPECT_DOUBLE_EQ(p[0], 2 - 0.1 * slots[0][0]);
  EXPECT_DOUBLE_EQ(p[16], 2 - 0.1 * (0.9 + 2)) << "a bias does not decay";
  EXPECT_EQ(p[1], 0) << "padding stays zero";
}

TEST(Sgd, a_group_multiplies_the_learning_rate) {
  const core::Optimizer sgd{.rule = core::Sgd{}, .schedule = {.peak = 0.1}, .vectors = {.rate_multiplier = 2}};
  Update update;
  auto p = arena(2, 2), g = arena(4, 4);
  std::vector<std::vector<double>> slots = {arena(0, 0)};
  update.run(sgd, p, g, slots, 0);
  EXPECT_DOUBLE_EQ(p[0], 2 - 0.1 * 2);
  EXPECT_DOUBLE_EQ(p[16], 2 - 0.2 * 2);
}

TEST(AdamW, follows_its_formula_over_several_steps) {
  constexpr double kBeta2 = 0.99;
  const core::Optimizer adamw{
      .rule = core::AdamW{.beta2 = kBeta2}, .schedule = {.peak = 0.1}, .matrices = {.weight_decay = 0.1}};
  Update update;
  auto p = arena(2, 2);
  std::vector<std::vector<double>> slots = {arena(0, 0), arena(0, 0)};
  double weight = 2, bias = 2, m = 0, v = 0;
  for (int step = 0; step < 20; ++step) {
    double g = std::sin(step) + 0.5;
    update.run(adamw, p, arena(2 * g, 2 * g), slots, step);
    m = 0.9 * m + 0.1 * g;
    v = kBeta2 * v + (1 - kBeta2) * g * g;
    double m_hat = m / (1 - std::pow(0.9, step + 1)), v_hat = v / (1 - std::pow(kBeta2, step + 1));
    weight = weight - 0.1 * 0.1 * weight - 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
    bias -= 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
    EXPECT_NEAR(p[0], weight, 1e-12);
    EXPECT_NEAR(p[16], bias, 1e-12);
  }
}

// Three steps in float32 with `optimizer`: parameters and slots, one after the other. Checks the digest of each step.
std::vector<float> three_steps(const core::Optimizer& optimizer, int threads) {
  constexpr size_t kCount = 10000, kBias = 5000, kAt = 10016;
  core::Layout layout;
  layout.count = kAt + kBias;
  layout.segments = {{.name = "w", .offset = 0, .count = kCount, .decay = true},
                     {.name = "b", .offset = kAt, .count = kBias, .decay = false}};
  std::vector<std::vector<float>> arenas(1 + slots_of(optimizer.rule).size(), std::vector<float>(layout.count));
  for (size_t i = 0; i < layout.count; ++i) arenas[0][i] = i < kCount || i >= kAt ? 1.0F : 0.0F;
  std::vector<void*> slots;
  for (size_t i = 1; i < arenas.size(); ++i) slots.push_back(arenas[i].data());
  std::vector<float> g(layout.count);
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(std::cos(static_cast<double>(i) + step));
    const std::uint64_t digest = update_on_host(
        optimizer,
        {.layout = &layout, .parameters = arenas[0].data(), .gradients = g.data(), .slots = slots, .step = step},
        core::ElementType::kFloat32, threads);
    std::uint64_t read = 0;
    for (size_t segment = 0, array = 0; segment < 2; ++segment) {
      const core::Segment& at = layout.segments[segment];
      for (const auto& arena : arenas) read += core::digest_of_array(array++, &arena[at.offset], at.count, 4);
    }
    EXPECT_EQ(digest, read) << "step " << step;
  }
  std::vector<float> all;
  for (const auto& arena : arenas) all.insert(all.end(), arena.begin(), arena.end());
  return all;
}

class EveryRule : public ::testing::TestWithParam<core::Rule> {};

TEST_P(EveryRule, threads_change_no_bit_and_the_digest_is_that_of_the_memory) {
  const core::Optimizer optimizer{.rule = GetParam(), .schedule = {.peak = 0.01}, .matrices = {.weight_decay = 0.01}};
  const std::vector<float> alone = three_steps(optimizer, 1);
  EXPECT_NE(alone[0], 1.0F);
  for (int threads : testing::thread_counts()) EXPECT_EQ(three_steps(optimizer, threads), alone) << threads;
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule, ::testing::Values(core::Rule(core::Sgd{}), core::Rule(core::AdamW{})));

TEST(MakeOptimizer, describes_the_rule_as_checkpoints_have_it) {
  EXPECT_EQ(describe(*make_optimizer({.rule = "sgd"})), "sgd momentum=0.9 weight-decay=0");
  EXPECT_EQ(describe(*make_optimizer({.rule = "sgd", .weight_decay = 1e-4, .momentum = 0.5})),
            "sgd momentum=0.5 weight-decay=0.0001");
  EXPECT_EQ(describe(*make_optimizer({.rule = "adamw", .weight_decay = 0.01})),
            "adamw beta1=0.9 beta2=0.99 epsilon=1e-08 weight-decay=0.01");
}

TEST(MakeOptimizer, decays_matrices_and_falls_to_a_tenth_at_the_last_step) {
  auto made = make_optimizer({.weight_decay = 0.01, .learning_rate = 2, .warmup_steps = 2, .total_steps = 12});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->matrices.weight_decay, 0.01);
  EXPECT_EQ(made->vectors.weight_decay, 0);
  EXPECT_DOUBLE_EQ(learning_rate(made->schedule, 0), 1);
  EXPECT_NEAR(learning_rate(made->schedule, 12), 0.2, 1e-12);
}

TEST(MakeOptimizer, refuses_what_it_cannot_make) {
  EXPECT_EQ(make_optimizer({.rule = "lion"}).error().message, "there is no --optimizer=lion; choose one of adamw, sgd");
  EXPECT_EQ(make_optimizer({.rule = "adamw", .momentum = 0.5}).error().message, "--momentum is of --optimizer=sgd");
}

}  // namespace
}  // namespace lockstep::trainer::optim
