// Products that read each weight once (few_rows_products of trainer/backend/cpu/row_kernels.h), on all instruction sets
// of this machine, and a layer that is large enough for them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/layer_checks.h"
#include "tests/trainer/core/threads.h"
#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/make_backend.h"

namespace lockstep::trainer {
namespace {

namespace cpu = backend::cpu;
using testing::Bench;
using testing::worst_difference;

std::vector<float> normal_values(std::uint64_t key, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(core::normal(core::mix(key), i));
  return values;
}

std::vector<const cpu::RowKernels*> runnable_kernels() {
  std::vector<const cpu::RowKernels*> all;
  for (const cpu::RowKernels* kernels : {&cpu::row_kernels_baseline, &cpu::row_kernels_v3, &cpu::row_kernels_v4}) {
    if (cpu::can_run(*kernels)) all.push_back(kernels);
  }
  return all;
}

struct Matrices {
  size_t rows, depth, columns;
  std::vector<float> x = normal_values(1, rows*depth), weight = normal_values(2, columns*depth),
                     bias = normal_values(3, columns);

  std::vector<float> product(const cpu::RowKernels& kernels, bool biased, size_t begin, size_t end) const {
    std::vector<float> y(rows * columns, -1);
    kernels.few_rows_products(x.data(), weight.data(), biased ? bias.data() : nullptr, rows, depth, columns, begin, end,
                              y.data());
    return y;
  }
  double expected(bool biased, size_t r, size_t c) const {
    double sum = biased ? bias[c] : 0;
    for (size_t i = 0; i < depth; ++i) sum += static_cast<double>(x[r * depth + i]) * weight[c * depth + i];
    return sum;
  }
};

// Around the lanes, rows and columns that any instruction set takes at once.
std::vector<Matrices> edges() {
  std::vector<Matrices> all;
  for (const size_t rows : {1, 3, 4, 5, 8, 9, 16}) all.push_back({.rows = rows, .depth = 37, .columns = 3});
  for (const size_t depth : {1, 15, 16, 17, 32}) all.push_back({.rows = 9, .depth = depth, .columns = 4});
  all.push_back({.rows = 2, .depth = 33, .columns = 1});
  return all;
}

TEST(FewRowsProducts, are_those_in_double) {
  for (const cpu::RowKernels* kernels : runnable_kernels()) {
    for (const Matrices& m : edges()) {
      for (const bool biased : {false, true}) {
        const std::vector<float> y = m.product(*kernels, biased, 0, m.columns);
        for (size_t r = 0; r < m.rows; ++r) {
          for (size_t c = 0; c < m.columns; ++c) {
            EXPECT_NEAR(y[r * m.columns + c], m.expected(biased, r, c), 1e-4)
                << kernels->name << ", " << m.rows << " rows, depth " << m.depth << ": " << r << ", " << c;
          }
        }
      }
    }
  }
}

TEST(FewRowsProducts, are_equal_in_a_call_for_fewer_columns) {
  const Matrices m{.rows = 9, .depth = 37, .columns = 7};
  for (const cpu::RowKernels* kernels : runnable_kernels()) {
    const std::vector<float> whole = m.product(*kernels, true, 0, m.columns);
    const std::vector<float> part = m.product(*kernels, true, 3, 6);
    for (size_t i = 0; i < whole.size(); ++i) {
      const bool inside = i % m.columns >= 3 && i % m.columns < 6;
      EXPECT_EQ(part[i], inside ? whole[i] : -1) << kernels->name << ": " << i;
    }
  }
}

// 16 rows and a million weights: the most and the least with which the layer reads its weights once.
TEST(FewRowsProducts, of_a_large_layer_are_those_of_ref_on_any_number_of_threads) {
  core::GraphBuilder build(16);
  const core::TensorId x = build.real_input("x", {16, 1031});
  const core::TensorId y = core::ops::linear(build, "layer", x, 1019);
  const core::Graph graph =
      build.finish(y, core::ops::mean_squared_error(build, "loss", y, build.real_input("target", {16, 1019})));
  auto ref = backend::make_backend("ref", 1).value();
  Bench expected(graph, *ref, 1, {}, 0.01);
  const double loss = expected.loss();
  std::vector<double> losses;
  for (const int threads : testing::thread_counts()) {
    auto cpu = backend::make_backend("cpu", threads).value();
    Bench actual(graph, *cpu, 1, {}, 0.01);
    losses.push_back(actual.loss());
    EXPECT_NEAR(losses.back(), loss, loss * testing::kTolerance);
    EXPECT_LT(worst_difference(expected.layout(), actual.gradient(), expected.gradient()), testing::kTolerance);
  }
  for (const double other : losses) EXPECT_EQ(other, losses.front());
}

}  // namespace
}  // namespace lockstep::trainer
