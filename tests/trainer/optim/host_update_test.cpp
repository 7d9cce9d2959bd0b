#include "trainer/optim/host_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/trainer/core/threads.h"
#include "trainer/core/digest.h"

namespace lockstep::trainer::optim {
namespace {

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
    core::NormTree norms;
    return update_on_host(optimizer,
                          {.layout = &layout,
                           .parameters = parameters.data(),
                           .gradients = gradients.data(),
                           .slots = addresses,
                           .gradient_scale = 0.5,
                           .step = step},
                          core::ElementType::kFloat64, 1, norms);
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
  core::NormTree norms;
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(std::cos(static_cast<double>(i) + step));
    const std::uint64_t digest = update_on_host(
        optimizer,
        {.layout = &layout, .parameters = arenas[0].data(), .gradients = g.data(), .slots = slots, .step = step},
        core::ElementType::kFloat32, threads, norms);
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

// Two steps in float64 of tensors of more than a block, against `reference(weights, biases)`, which keeps what it
// needs.
struct Tensors {
  std::vector<double> parameters, gradients, velocity;  // velocity: the momentum slot
};

void compare(const core::Optimizer& optimizer, double scale,
             const std::function<void(Tensors& tensors, bool matrix)>& reference) {
  constexpr size_t kMatrix = 5000, kVector = 37, kAt = 5008;
  core::Layout layout;
  layout.count = kAt + 48;
  layout.segments = {{.name = "w", .offset = 0, .count = kMatrix, .decay = true},
                     {.name = "b", .offset = kAt, .count = kVector, .decay = false}};
  std::vector<double> p(layout.count), g(layout.count), v(layout.count);
  Tensors matrix, vector;
  auto each = [&](auto&& body) {
    for (size_t i = 0; i < kMatrix; ++i) body(matrix, i, i);
    for (size_t i = 0; i < kVector; ++i) body(vector, i, kAt + i);
  };
  each([&](Tensors& tensors, size_t, size_t at) {
    tensors.parameters.push_back(p[at] = std::sin(static_cast<double>(at)));
    tensors.gradients.push_back(0);
    tensors.velocity.push_back(0);
  });
  void* slots[] = {v.data()};
  core::NormTree norms;
  for (int step = 0; step < 3; ++step) {
    each([&](Tensors& tensors, size_t i, size_t at) {
      g[at] = std::cos(static_cast<double>(at) * (step + 1)) + 0.1;
      tensors.gradients[i] = g[at] * scale;
    });
    update_on_host(optimizer,
                   {.layout = &layout,
                    .parameters = p.data(),
                    .gradients = g.data(),
                    .slots = slots,
                    .gradient_scale = scale,
                    .step = step},
                   core::ElementType::kFloat64, 1, norms);
    reference(matrix, true);
    reference(vector, false);
    double difference = 0;
    each([&](Tensors& tensors, size_t i, size_t at) {
      difference = std::max(difference, std::abs(p[at] - tensors.parameters[i]));
      difference = std::max(difference, std::abs(v[at] - tensors.velocity[i]));
    });
    EXPECT_LT(difference, 1e-14) << "step " << step;
  }
}

TEST(Sgd, nesterov_follows_the_formula_of_torch) {
  // torch.optim.SGD, nesterov=True, dampening=0: g += weight_decay p; buf = momentum buf + g; p -= lr (g + momentum
  // buf)
  const core::Optimizer optimizer{.rule = core::Sgd{.momentum = 0.8, .nesterov = true},
                                  .schedule = {.peak = 0.05},
                                  .matrices = {.weight_decay = 0.01}};
  compare(optimizer, 0.5, [](Tensors& t, bool matrix) {
    for (size_t i = 0; i < t.parameters.size(); ++i) {
      const double g = t.gradients[i] + (matrix ? 0.01 : 0) * t.parameters[i];
      t.velocity[i] = 0.8 * t.velocity[i] + g;
      t.parameters[i] -= 0.05 * (g + 0.8 * t.velocity[i]);
    }
  });
}

double norm_of(const std::vector<double>& values) {
  double squares = 0;
  for (double value : values) squares += value * value;
  return std::sqrt(squares);
}

core::Optimizer lars_of(double weight_decay) {
  return {.rule = core::Lars{.momentum = 0.8, .trust_coefficient = 0.02},
          .schedule = {.peak = 5},
          .matrices = {.weight_decay = weight_decay, .trust_ratio = true}};
}

TEST(Lars, follows_algorithm_1_of_its_paper) {
  // You, Gitman and Ginsburg, "Large batch training of convolutional networks" (2017), algorithm 1: the local rate is
  // eta |w| / (|g| + beta |w|); v = m v + rate local_rate (g + beta w); w = w - v. Biases have plain momentum.
  compare(lars_of(0.01), 0.5, [](Tensors& t, bool matrix) {
    const double decay = matrix ? 0.01 : 0, w = norm_of(t.parameters), g = norm_of(t.gradients);
    const double local = matrix ? 0.02 * w / (g + decay * w) : 1;
    for (size_t i = 0; i < t.parameters.size(); ++i) {
      t.velocity[i] = 0.8 * t.velocity[i] + 5 * local * (t.gradients[i] + decay * t.parameters[i]);
      t.parameters[i] -= t.velocity[i];
    }
  });
}

TEST(Lars, a_tensor_of_zeros_moves_by_the_plain_learning_rate) {
  Update update;
  auto p = arena(0, 0), g = arena(4, 4);
  std::vector<std::vector<double>> slots = {arena(0, 0)};
  update.run(lars_of(0.01), p, g, slots, 0);
  EXPECT_EQ(p[0], -5 * 2);
  EXPECT_EQ(p[16], -5 * 2);
}

TEST(Lars, a_gradient_of_zeros_leaves_the_decay_or_nothing) {
  Update update;
  auto p = arena(2, 2), g = arena(0, 0);
  std::vector<std::vector<double>> slots = {arena(0, 0)};
  update.run(lars_of(0), p, g, slots, 0);
  EXPECT_EQ(p[0], 2);
  update.run(lars_of(0.01), p, g, slots, 0);
  EXPECT_DOUBLE_EQ(p[0], 2 - 5 * 0.02 * 2) << "a share of rate times trust coefficient, whatever the decay";
  EXPECT_EQ(p[16], 2);
}

class EveryRule : public ::testing::TestWithParam<core::Rule> {};

TEST_P(EveryRule, threads_change_no_bit_and_the_digest_is_that_of_the_memory) {
  const core::Optimizer optimizer{
      .rule = GetParam(), .schedule = {.peak = 0.01}, .matrices = {.weight_decay = 0.01, .trust_ratio = true}};
  const std::vector<float> alone = three_steps(optimizer, 1);
  EXPECT_NE(alone[0], 1.0F);
  for (int threads : testing::thread_counts()) EXPECT_EQ(three_steps(optimizer, threads), alone) << threads;
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryRule,
                         ::testing::Values(core::Rule(core::Sgd{}), core::Rule(core::Sgd{.nesterov = true}),
                                           core::Rule(core::AdamW{}), core::Rule(core::Lars{})));

}  // namespace
}  // namespace lockstep::trainer::optim
