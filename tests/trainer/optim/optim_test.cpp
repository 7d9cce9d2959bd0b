#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/core/threads.h"
#include "trainer/core/digest.h"
#include "trainer/optim/adamw.h"
#include "trainer/optim/schedule.h"
#include "trainer/optim/sgd.h"

namespace lockstep::trainer::optim {
namespace {

TEST(Schedule, warms_up_and_follows_a_cosine) {
  Schedule schedule{.peak = 2.0, .warmup_steps = 10, .total_steps = 110, .final_share = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 2.0);
  for (std::int64_t step = 10; step <= 110; ++step) {
    double t = static_cast<double>(step - 10) / 100;
    EXPECT_NEAR(learning_rate(schedule, step), 2.0 * (0.1 + 0.9 * 0.5 * (1 + std::cos(std::acos(-1.0) * t))), 1e-11);
  }
  EXPECT_NEAR(learning_rate(schedule, 1000), 0.2, 1e-12);
}

TEST(Schedule, is_constant_without_an_end) {
  EXPECT_DOUBLE_EQ(learning_rate({.peak = 0.5}, 12345), 0.5);
}

// Two segments of one element each: the first decays.
class Update {
 public:
  Update() {
    layout.count = 32;
    layout.segments = {{.name = "weight", .offset = 0, .count = 1, .decay = true},
                       {.name = "bias", .offset = 16, .count = 1, .decay = false}};
  }
  core::Update of(std::vector<double>& parameters, const std::vector<double>& gradients,
                  std::vector<std::vector<double>>& slots, std::int64_t step) {
    addresses.clear();
    for (auto& slot : slots) addresses.push_back(slot.data());
    return {.real = core::ElementType::kFloat64,
            .layout = &layout,
            .parameters = parameters.data(),
            .gradients = gradients.data(),
            .slots = addresses,
            .gradient_scale = 0.5,
            .step = step};
  }
  core::Layout layout;
  std::vector<void*> addresses;
};

std::vector<double> arena(double first, double second) {
  std::vector<double> values(32);
  values[0] = first;
  values[16] = second;
  return values;
}

TEST(Sgd, follows_its_formula) {
  Sgd sgd({.schedule = {.peak = 0.1}, .momentum = 0.9, .weight_decay = 0.01});
  Update update;
  auto p = arena(2, 2), g = arena(4, 4);
  std::vector<std::vector<double>> slots = {arena(1, 1)};
  const std::uint64_t digest = sgd.apply(update.of(p, g, slots, 0));
  EXPECT_EQ(digest, core::digest_of_array(0, &p[0], 1, 8) + core::digest_of_array(1, &slots[0][0], 1, 8) +
                        core::digest_of_array(2, &p[16], 1, 8) + core::digest_of_array(3, &slots[0][16], 1, 8));
  EXPECT_DOUBLE_EQ(slots[0][0], 0.9 * 1 + (4 * 0.5 + 0.01 * 2));
  EXPECT_DOUBLE_EQ(p[0], 2 - 0.1 * slots[0][0]);
  EXPECT_DOUBLE_EQ(p[16], 2 - 0.1 * (0.9 + 2)) << "a bias does not decay";
  EXPECT_EQ(p[1], 0) << "padding stays zero";
}

TEST(AdamW, follows_its_formula_over_several_steps) {
  AdamWOptions options{.schedule = {.peak = 0.1}, .weight_decay = 0.1};
  AdamW adamw(options);
  Update update;
  auto p = arena(2, 2);
  std::vector<std::vector<double>> slots = {arena(0, 0), arena(0, 0)};
  double weight = 2, bias = 2, m = 0, v = 0;
  for (int step = 0; step < 20; ++step) {
    double g = std::sin(step) + 0.5;
    auto gradients = arena(2 * g, 2 * g);
    adamw.apply(update.of(p, gradients, slots, step));
    m = 0.9 * m + 0.1 * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    double m_hat = m / (1 - std::pow(0.9, step + 1)), v_hat = v / (1 - std::pow(options.beta2, step + 1));
    weight = weight - 0.1 * 0.1 * weight - 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
    bias -= 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
    EXPECT_NEAR(p[0], weight, 1e-12);
    EXPECT_NEAR(p[16], bias, 1e-12);
  }
}

TEST(AdamW, float32_follows_float64_and_threads_change_no_bit) {
  AdamW adamw({.schedule = {.peak = 0.01}});
  constexpr size_t kCount = 10000;
  core::Layout layout;
  layout.count = kCount;
  layout.segments = {{.name = "w", .offset = 0, .count = kCount, .decay = true}};
  auto run = [&](int threads) {
    std::vector<float> p(kCount, 1.0F), g(kCount), m(kCount), v(kCount);
    void* slots[] = {m.data(), v.data()};
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < kCount; ++i) g[i] = static_cast<float>(std::cos(static_cast<double>(i) + step));
      const std::uint64_t digest = adamw.apply({.layout = &layout,
                                                .parameters = p.data(),
                                                .gradients = g.data(),
                                                .slots = slots,
                                                .step = step,
                                                .threads = threads});
      EXPECT_EQ(digest, core::digest_of_array(0, p.data(), kCount, 4) + core::digest_of_array(1, m.data(), kCount, 4) +
                            core::digest_of_array(2, v.data(), kCount, 4));
    }
    return p;
  };
  for (int threads : testing::thread_counts()) EXPECT_EQ(run(1), run(threads));
  EXPECT_NEAR(run(1)[0], 1 - 3 * 0.01, 0.01);
}

}  // namespace
}  // namespace lockstep::trainer::optim
