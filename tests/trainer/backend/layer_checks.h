// How the tests of all backends compare a backend with ref.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/image_layers.h"
#include "trainer/backend/make_backend.h"

namespace lockstep::trainer::testing {

// The stated tolerance of float32: 1e-5 times the root of the longest sum.
inline constexpr double kTolerance = 1e-5;

// Largest difference between the gradients of one tensor, relative to the tensor's largest element.
inline double difference_in(const core::Segment& segment, const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 1e-12, difference = 0;
  for (size_t i = segment.offset; i < segment.offset + segment.count; ++i) {
    largest = std::max(largest, std::fabs(b[i]));
    difference = std::max(difference, std::fabs(a[i] - b[i]));
  }
  return difference / largest;
}

inline double worst_difference(const core::Layout& layout, const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (const core::Segment& segment : layout.segments) worst = std::max(worst, difference_in(segment, a, b));
  return worst;
}

// Gives each parameter that matters the value NaN: the loss must not be finite. Looks at about 40 elements of a tensor.
inline void expect_a_nan_to_reach_the_loss(Bench& bench) {
  for (const core::Segment& segment : bench.layout().segments) {
    for (size_t i = 0; i < segment.count; i += segment.count / 40 + 1) {
      const size_t at = segment.offset + i;
      const double value = bench.parameter(at), loss = bench.loss();
      bench.set_parameter(at, value + 3);  // some are rows of a table that no sample uses
      const bool matters = bench.loss() != loss;
      bench.set_parameter(at, std::numeric_limits<double>::quiet_NaN());
      const double broken = bench.loss();
      EXPECT_TRUE(!matters || !std::isfinite(broken)) << segment.name << " at " << i << ": the loss is " << broken;
      bench.set_parameter(at, value);
    }
  }
}

// A model's tolerance, for each of its layers: errors of float32 pass through all layers above, so it is wider.
inline constexpr double kModelTolerance = 5e-4;

// Holds every parameter tensor of the model against ref; prints the worst. `deviation`: of the parameters (bench.h). In
// a deep network a large one makes the classes certain, and a gradient of zero agrees with anything.
inline void expect_gradients_of_ref(const char* name, const core::Graph& graph, std::int32_t classes,
                                    core::Backend& backend, double deviation = 0.3) {
  auto ref = backend::make_backend("ref", 1).value();
  Bench expected(graph, *ref, classes, {}, deviation), actual(graph, backend, classes, {}, deviation);
  double loss = expected.loss();
  EXPECT_NEAR(actual.loss(), loss, 1e-5 * loss);
  std::vector<double> of_backend = actual.gradient(), of_ref = expected.gradient();
  const auto largest = [](const auto begin, const auto end) {
    return std::accumulate(begin, end, 0.0, [](double most, double value) { return std::max(most, std::fabs(value)); });
  };
  const double largest_of_all = largest(of_ref.begin(), of_ref.end());
  double worst = 0;
  std::string where;
  for (const core::Segment& segment : expected.layout().segments) {
    const auto at = static_cast<std::ptrdiff_t>(segment.offset), end = at + static_cast<std::ptrdiff_t>(segment.count);
    // A shift that the next norm takes away again has no gradient but rounding errors.
    if (largest(of_ref.begin() + at, of_ref.begin() + end) < 1e-12 * largest_of_all) {
      EXPECT_LT(largest(of_backend.begin() + at, of_backend.begin() + end), kModelTolerance * largest_of_all)
          << segment.name;
      continue;
    }
    double difference = difference_in(segment, of_backend, of_ref);
    EXPECT_LT(difference, kModelTolerance) << segment.name;
    if (difference > worst) where = segment.name;
    worst = std::max(worst, difference);
  }
  std::printf("%s: %zu tensors, largest relative difference of a gradient %.1e (%s)\n", name,
              expected.layout().segments.size(), worst, where.c_str());
}

// Values that are computed again are bitwise identical: NaN takes the place of each between the passes, and gradients
// and statistics do not change. Returns how many there are.
inline size_t expect_the_same_bits_recomputed(const std::string& name, const core::Graph& graph, std::int32_t classes,
                                              core::Backend& backend) {
  SCOPED_TRACE(name);
  Bench kept(graph, backend, classes);
  Bench spoilt(graph, backend, classes, {.share_memory = false, .recompute = core::Recompute::kAll});
  EXPECT_EQ(spoilt.gradient(true), kept.gradient());
  EXPECT_EQ(spoilt.staged(), kept.staged());
  return spoilt.program().recomputation().steps;
}

// The same for each layer that may run again.
inline void expect_the_same_bits_of_cheap_layers(core::Backend& backend) {
  for (const LayerCase& layer : cheap_layer_cases(5, 4)) {
    EXPECT_GT(expect_the_same_bits_recomputed(layer.name, layer.graph(), layer.classes, backend), 0U) << layer.name;
  }
}

// With Recompute::kNorms a program computes bitwise identical gradients in at most `share` of the arena.
inline void expect_less_memory_recomputed(const std::string& name, const core::Graph& graph, std::int32_t classes,
                                          core::Backend& backend, double share) {
  SCOPED_TRACE(name);
  EXPECT_GT(expect_the_same_bits_recomputed(name, graph, classes, backend), 0U);
  Bench kept(graph, backend, classes), less(graph, backend, classes, {.recompute = core::Recompute::kNorms});
  const std::vector<double> gradient = kept.gradient();
  EXPECT_EQ(less.gradient(), gradient);
  EXPECT_EQ(less.gradient(), gradient) << "and again over memory that is no longer zero";
  EXPECT_EQ(less.loss(core::RunContext::Mode::kEvaluate), kept.loss(core::RunContext::Mode::kEvaluate));
  const double actual =
      static_cast<double>(less.program().arena_bytes()) / static_cast<double>(kept.program().arena_bytes());
  EXPECT_LE(actual, share);
  std::printf("%s: %.2f of the arena\n", name.c_str(), actual);
}

}  // namespace lockstep::trainer::testing
