// Time from work, and the table that is in the repository against what the models compute.
#include "tests/trainer/backend/cuda/roofline/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/trainer/backend/cuda/roofline/roofline_table.h"
#include "tests/trainer/backend/cuda/roofline/step_work.h"
#include "trainer/core/ops.h"

namespace lockstep::trainer::testing {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Pair;

constexpr Gpu kGpu{.name = "made up", .tensor_flops = 100, .float_flops = 10, .bandwidth = 5};

Work work(const char* kind, double flops, double bytes, bool tensor_cores = false) {
  return {.layer = "a", .kind = kind, .flops = flops, .bytes = bytes, .tensor_cores = tensor_cores};
}

TEST(Roofline, work_takes_the_longer_of_arithmetic_and_memory) {
  EXPECT_DOUBLE_EQ(seconds_of(work("sum", 0, 15), kGpu), 3);
  EXPECT_DOUBLE_EQ(seconds_of(work("product", 40, 15), kGpu), 4);
  EXPECT_DOUBLE_EQ(seconds_of(work("product", 40, 15, true), kGpu), 3);
  EXPECT_DOUBLE_EQ(seconds_of(work("product", 400, 15, true), kGpu), 4);
}

TEST(Roofline, the_bound_is_the_sum_of_all_work) {
  const Bound bound = bound_of({work("sum", 0, 5), work("product", 40, 15), work("sum", 20, 15)}, kGpu);
  EXPECT_DOUBLE_EQ(bound.seconds, 8);
  EXPECT_DOUBLE_EQ(bound.memory_seconds, 4);
  EXPECT_THAT(bound.kinds, ElementsAre(Pair("product", DoubleEq(4)), Pair("sum", DoubleEq(4))));
}

// Of 20 numbers, the 5 of the bias are cleared.
TEST(Roofline, a_step_clears_and_measures_gradients_and_updates_parameters) {
  core::GraphBuilder build(2);
  const auto x = build.real_input("x", {2, 3});
  const auto line = core::ops::linear(build, "line", x, 5);
  const auto loss = core::ops::mean_squared_error(build, "loss", line, build.real_input("y", {2, 5}));
  const core::Graph graph = build.finish(line, loss);
  for (const auto& [slots, bytes] : {std::pair{1, 4 * (5 + 6 * 20.0)}, {2, 4 * (5 + 8 * 20.0)}}) {
    double update = 0;
    for (const Work& one : works_of_step(graph, backend::Precision::kBfloat16, slots, Fused::kNo)) {
      if (one.pass == Pass::kUpdate) update += one.bytes;
    }
    EXPECT_EQ(update, bytes) << slots;
  }
}

TEST(Roofline, a_step_makes_float32_of_the_bytes_of_its_images) {
  core::GraphBuilder build(2);
  const auto x = build.real_input("x", {2, 7, 5, 3});
  const auto line = core::ops::linear(build, "line", core::ops::global_average_pool(build, "pool", x), 5);
  const auto loss = core::ops::mean_squared_error(build, "loss", line, build.real_input("y", {2, 5}));
  const core::Graph graph = build.finish(line, loss);
  double images = 0;
  for (const Work& one : works_of_step(graph, backend::Precision::kFloat32, 1, Fused::kNo)) {
    if (one.kind == "images") images += one.bytes;
  }
  EXPECT_EQ(images, 5 * 2 * 7 * 5 * 3);
}

TEST(RooflineTable, is_what_the_models_compute) {
  std::ifstream file(ROOFLINE_TABLE);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), roofline_table()) << "run `make cuda-roofline`";
}

}  // namespace
}  // namespace lockstep::trainer::testing
