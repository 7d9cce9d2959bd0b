// Products that read or write each weight once (trainer/backend/cpu/few_rows_kernels.h), on all instruction sets of
// this machine, and a layer that is large enough for them.
#include <gtest/gtest.h>

#include <algorithm>
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
    kernels.few_rows.products(x.data(), weight.data(), biased ? bias.data() : nullptr, rows, depth, columns, begin, end,
                              y.data());
    return y;
  }
  double expected(bool biased, size_t r, size_t c) const {
    double sum = biased ? bias[c] : 0;
    for (size_t i = 0; i < depth; ++i) sum += static_cast<double>(x[r * depth + i]) * weight[c * depth + i];
    return sum;
  }
};

// The gradients of such a product.
struct Gradients {
  Matrices m;
  std::vector<float> dy = normal_values(4, m.rows* m.columns);

  std::vector<float> of_weight(const cpu::RowKernels& kernels, size_t begin, size_t end, const float* added) const {
    std::vector<float> dweight(m.columns * m.depth, added != nullptr ? *added : std::nanf(""));
    kernels.few_rows.weight_gradient(dy.data(), m.x.data(), m.rows, m.depth, m.columns, begin, end, added != nullptr,
                                     dweight.data());
    return dweight;
  }
  std::vector<float> of_input(const cpu::RowKernels& kernels, size_t begin, size_t end, const float* added) const {
    std::vector<float> dx(m.rows * m.depth, added != nullptr ? *added : std::nanf(""));
    kernels.few_rows.input_gradient(dy.data(), m.weight.data(), m.rows, m.depth, m.columns, begin, end,
                                    added != nullptr, dx.data());
    return dx;
  }
  double expected_of_weight(size_t c, size_t i) const {
    double sum = 0;
    for (size_t r = 0; r < m.rows; ++r) sum += static_cast<double>(dy[r * m.columns + c]) * m.x[r * m.depth + i];
    return sum;
  }
  double expected_of_input(size_t r, size_t i) const {
    double sum = 0;
    for (size_t c = 0; c < m.columns; ++c)
      sum += static_cast<double>(dy[r * m.columns + c]) * m.weight[c * m.depth + i];
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

TEST(FewRowsGradients, are_those_in_double) {
  for (const cpu::RowKernels* kernels : runnable_kernels()) {
    std::vector<Matrices> cases = edges();
    cases.push_back({.rows = 5, .depth = 70, .columns = 69});  // more columns than are read at once, and a rest
    for (const Matrices& m : cases) {
      const Gradients of{m};
      const float seven = 7;
      for (const float* added : {static_cast<const float*>(nullptr), &seven}) {
        const double before = added != nullptr ? 7 : 0;
        const std::vector<float> dweight = of.of_weight(*kernels, 0, m.columns, added);
        const std::vector<float> dx = of.of_input(*kernels, 0, m.depth, added);
        for (size_t i = 0; i < m.depth; ++i) {
          for (size_t c = 0; c < m.columns; ++c) {
            EXPECT_NEAR(dweight[c * m.depth + i], before + of.expected_of_weight(c, i), 1e-4)
                << kernels->name << ", " << m.rows << " rows, depth " << m.depth << ": " << c << ", " << i;
          }
          for (size_t r = 0; r < m.rows; ++r) {
            EXPECT_NEAR(dx[r * m.depth + i], before + of.expected_of_input(r, i), 1e-4)
                << kernels->name << ", " << m.rows << " rows, depth " << m.depth << ": " << r << ", " << i;
          }
        }
      }
    }
  }
}

TEST(FewRowsGradients, are_equal_in_calls_for_parts) {
  const Gradients of{{.rows = 9, .depth = 192, .columns = 16}};
  for (const cpu::RowKernels* kernels : runnable_kernels()) {
    const std::vector<float> dweight = of.of_weight(*kernels, 0, 16, nullptr);
    const std::vector<float> part = of.of_weight(*kernels, 4, 12, nullptr);
    for (size_t i = 0; i < dweight.size(); ++i) {
      const bool inside = i / 192 >= 4 && i / 192 < 12;
      EXPECT_TRUE(inside ? part[i] == dweight[i] : std::isnan(part[i])) << kernels->name << ": " << i;
    }
    const std::vector<float> dx = of.of_input(*kernels, 0, 192, nullptr);
    const std::vector<float> middle = of.of_input(*kernels, 64, 128, nullptr);
    for (size_t i = 0; i < dx.size(); ++i) {
      const bool inside = i % 192 >= 64 && i % 192 < 128;
      EXPECT_TRUE(inside ? middle[i] == dx[i] : std::isnan(middle[i])) << kernels->name << ": " << i;
    }
  }
}

// As many weights as are written past the caches, where the address allows it, and the same at an odd address.
TEST(FewRowsGradients, of_many_weights_are_bitwise_the_same_at_any_address) {
  const Gradients of{{.rows = 2, .depth = 2048, .columns = cpu::kPastCaches / 2048}};
  const size_t count = of.m.depth * of.m.columns;
  for (const cpu::RowKernels* kernels : runnable_kernels()) {
    std::vector<float> room(count + 32, -1);
    const auto is_untouched = [](float value) { return value == -1; };
    const size_t even = (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) / sizeof(float);
    std::vector<std::vector<float>> results;
    for (const size_t at : {even, even + 1}) {
      kernels->few_rows.weight_gradient(of.dy.data(), of.m.x.data(), 2, of.m.depth, of.m.columns, 0, of.m.columns,
                                        false, room.data() + at);
      results.emplace_back(room.begin() + static_cast<std::ptrdiff_t>(at),
                           room.begin() + static_cast<std::ptrdiff_t>(at + count));
      EXPECT_TRUE(std::all_of(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(even), is_untouched));
      EXPECT_TRUE(std::all_of(room.begin() + static_cast<std::ptrdiff_t>(at + count), room.end(), is_untouched));
    }
    EXPECT_TRUE(results[0] == results[1]) << kernels->name;
    EXPECT_NEAR(results[0][5 * of.m.depth + 7], of.expected_of_weight(5, 7), 1e-5) << kernels->name;
  }
}

// 16 rows and a million weights: the most and the least with which the layer reads its weights once.
TEST(FewRowsProducts, of_a_large_layer_are_those_of_ref_on_any_number_of_threads) {
  core::GraphBuilder build(16);
  const core::TensorId x = core::ops::linear(build, "before", build.real_input("x", {16, 4}), 1031);
  const core::TensorId y = core::ops::linear(build, "layer", x, 1019);
  const core::Graph graph =
      build.finish(y, core::ops::mean_squared_error(build, "loss", y, build.real_input("target", {16, 1019})));
  auto ref = backend::make_backend("ref", 1).value();
  Bench expected(graph, *ref, 1, {}, 0.01);
  const double loss = expected.loss();
  std::vector<double> losses;
  std::vector<std::vector<double>> gradients;
  for (const int threads : testing::thread_counts()) {
    auto cpu = backend::make_backend("cpu", threads).value();
    Bench actual(graph, *cpu, 1, {}, 0.01);
    losses.push_back(actual.loss());
    EXPECT_NEAR(losses.back(), loss, loss * testing::kTolerance);
    gradients.push_back(actual.gradient());
    EXPECT_LT(worst_difference(expected.layout(), gradients.back(), expected.gradient()), testing::kTolerance);
    gradients.push_back(actual.overwritten_gradient());
  }
  for (const double other : losses) EXPECT_EQ(other, losses.front());
  for (const std::vector<double>& other : gradients) EXPECT_TRUE(other == gradients.front());
}

}  // namespace
}  // namespace lockstep::trainer
