#include "trainer/backend/cuda/kernels/optimizer.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/trainer/backend/cuda/kernels/kernel_test.h"
#include "trainer/backend/cuda/kernels/norm.h"
#include "trainer/core/layout.h"
#include "trainer/core/power.h"
#include "trainer/optim/host_update.h"

namespace lockstep::trainer::cuda::optimizer_test {
namespace {

using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;

constexpr double kScale = 0.37;
constexpr std::int64_t kStep = 4;

core::Optimizer optimizer_of(core::Rule rule) {
  return {.rule = rule,
          .schedule = {.peak = 0.013},
          .matrices = {.weight_decay = 0.01, .trust_ratio = std::holds_alternative<core::Lars>(rule)}};
}

// Segments of odd sizes, one of several blocks, with padding between them.
core::Layout layout() {
  core::Layout made;
  for (const size_t count : {1, 15, 4096, 4099, 9001}) {
    core::Segment segment;
    segment.offset = made.count;
    segment.count = count;
    segment.decay = count % 2 == 1;
    made.segments.push_back(segment);
    made.count += (count + 15) / 16 * 16;
  }
  return made;
}

// Parameters, gradients and two slots. The padding is not zero, so what reads it shows.
struct Arenas {
  std::vector<float> parameters, gradients, first, second;
};

Arenas arenas(const core::Layout& layout) {
  Arenas made;
  std::uint64_t key = 0;
  for (std::vector<float>* arena : {&made.parameters, &made.gradients, &made.first, &made.second}) {
    const std::vector<float> values = numbers(layout.count, ++key);
    arena->assign(layout.count, 7);
    for (const core::Segment& segment : layout.segments) {
      for (size_t i = segment.offset; i < segment.offset + segment.count; ++i) {
        (*arena)[i] = arena == &made.second ? values[i] * values[i] : values[i];  // a second moment is not negative
      }
    }
  }
  return made;
}

// What the host makes of the arenas, and what the kernels do, must be equal: bits and digest.
class OptimizerKernels : public ::testing::Test {
 protected:
  // `launch_update(segment, parameters, gradients, first, second, digest)` for each segment.
  template <typename LaunchUpdate>
  void expect_bits_of_the_host(const core::Optimizer& optimizer, const LaunchUpdate& launch_update) {
    Arenas host = arenas(layout_);
    std::vector<void*> slots = {host.first.data(), host.second.data()};
    slots.resize(core::slots_of(optimizer.rule).size());
    core::NormTree norms;
    const core::Update update{.layout = &layout_,
                              .parameters = host.parameters.data(),
                              .gradients = host.gradients.data(),
                              .slots = slots,
                              .gradient_scale = kScale,
                              .step = kStep};
    const std::uint64_t expected = optim::update_on_host(optimizer, update, core::ElementType::kFloat32, 1, norms);
    in_every_order([&] {
      const Arenas start = arenas(layout_);
      Guarded<float> parameters(start.parameters), gradients(start.gradients), first(start.first), second(start.second);
      Guarded<std::uint64_t> digest(std::vector<std::uint64_t>{0});
      for (size_t i = 0; i < layout_.segments.size(); ++i) {
        const size_t at = layout_.segments[i].offset;
        expect_success(launch_update(i, parameters.data() + at, gradients.data() + at, first.data() + at,
                                     second.data() + at, digest.data()));
      }
      EXPECT_EQ(parameters.values(), host.parameters);
      EXPECT_EQ(first.values(), host.first);
      EXPECT_EQ(second.values(), host.second);
      EXPECT_EQ(digest.values()[0], expected);
    });
  }

  std::int64_t count(size_t segment) const { return static_cast<std::int64_t>(layout_.segments[segment].count); }
  const core::Group& group(const core::Optimizer& optimizer, size_t segment) const {
    return core::group_of(optimizer, layout_.segments[segment]);
  }

  const core::Layout layout_ = layout();
};

TEST_F(OptimizerKernels, sgd_has_the_bits_of_the_host) {
  for (const bool nesterov : {false, true}) {
    const core::Optimizer optimizer = optimizer_of(core::Sgd{.momentum = 0.9, .nesterov = nesterov});
    expect_bits_of_the_host(optimizer, [&](size_t i, float* p, float* g, float* v, float*, std::uint64_t* digest) {
      const SgdScalars scalars{.momentum = 0.9F,
                               .rate = static_cast<float>(core::learning_rate(optimizer, group(optimizer, i), kStep)),
                               .decay = static_cast<float>(group(optimizer, i).weight_decay),
                               .scale = static_cast<float>(kScale),
                               .nesterov = nesterov};
      return sgd_update(nullptr, scalars, static_cast<std::int64_t>(i), p, g, v, count(i), digest);
    });
  }
}

TEST_F(OptimizerKernels, adamw_has_the_bits_of_the_host) {
  const core::AdamW rule;
  const core::Optimizer optimizer = optimizer_of(rule);
  expect_bits_of_the_host(optimizer, [&](size_t i, float* p, float* g, float* m, float* v, std::uint64_t* digest) {
    const double rate = core::learning_rate(optimizer, group(optimizer, i), kStep);
    const AdamWScalars scalars{.beta1 = static_cast<float>(rule.beta1),
                               .beta2 = static_cast<float>(rule.beta2),
                               .epsilon = static_cast<float>(rule.epsilon),
                               .rate = static_cast<float>(rate * (1 / (1 - core::power(rule.beta1, kStep + 1)))),
                               .correction2 = static_cast<float>(1 / (1 - core::power(rule.beta2, kStep + 1))),
                               .keep = static_cast<float>(1 - rate * group(optimizer, i).weight_decay),
                               .scale = static_cast<float>(kScale)};
    return adamw_update(nullptr, scalars, static_cast<std::int64_t>(i), p, g, m, v, count(i), digest);
  });
}

TEST_F(OptimizerKernels, lars_has_the_bits_of_the_host) {
  const core::Lars rule;
  const core::Optimizer optimizer = optimizer_of(rule);
  expect_bits_of_the_host(optimizer, [&](size_t i, float* p, float* g, float* v, float*, std::uint64_t* digest) {
    Guarded<double> norms(2), scratch(norm_scratch(count(i)) / sizeof(double));
    expect_success(norm(nullptr, p, count(i), norms.data(), scratch.data()));
    expect_success(norm(nullptr, g, count(i), norms.data() + 1, scratch.data()));
    const LarsScalars scalars{.momentum = rule.momentum,
                              .rate = core::learning_rate(optimizer, group(optimizer, i), kStep),
                              .decay = group(optimizer, i).weight_decay,
                              .scale = kScale,
                              .trust_coefficient = rule.trust_coefficient,
                              .trust_ratio = group(optimizer, i).trust_ratio};
    return lars_update(nullptr, scalars, static_cast<std::int64_t>(i), norms.data(), p, g, v, count(i), digest);
  });
}

TEST_F(OptimizerKernels, lars_without_a_trust_ratio_reads_no_norms) {
  Guarded<float> p(numbers(3)), g(numbers(3)), v(std::vector<float>(3, 0));
  Guarded<std::uint64_t> digest(std::vector<std::uint64_t>{0});
  const LarsScalars scalars{.rate = 1, .trust_ratio = false};
  expect_success(lars_update(nullptr, scalars, 0, nullptr, p.data(), g.data(), v.data(), 3, digest.data()));
  testing::expect_close(p.values(), {0, 0, 0}, 0);  // parameters and gradients are equal
}

}  // namespace
}  // namespace lockstep::trainer::cuda::optimizer_test
