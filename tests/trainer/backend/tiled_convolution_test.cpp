// Convolutions by tiles in registers (trainer/backend/cpu/tiled_convolution.h): against ref, at every edge of tiles,
// chunks and slabs.
#include "trainer/backend/cpu/tiled_convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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
namespace ops = core::ops;
using testing::Bench;
using testing::worst_difference;

struct TiledCase {
  std::string name;
  core::Shape in;  // N, H, W, C
  std::int64_t outputs;
  ops::Conv2d op;
  // The input is a parameter that another path uses, too: its gradients add up.
  core::Graph graph() const {
    core::GraphBuilder build(in[0]);
    const core::TensorId x = build.parameter("x", in, core::Fill::kNormal, 0.7);
    core::TensorId y = ops::flatten(build, "flat", ops::conv2d(build, "layer", x, outputs, op, 0.3));
    y = ops::add(build, "sum", ops::linear(build, "head", y, 2),
                 ops::linear(build, "skip", ops::flatten(build, "flat_skip", x), 2, false));
    return build.finish(y, ops::mean_squared_error(build, "loss", y, build.real_input("target", {in[0], 2})));
  }
};

constexpr ops::Conv2d kSame{.kernel = 3, .padding = 1};

std::vector<TiledCase> tiled_cases() {
  std::vector<TiledCase> all = {
      {"one_tile", {1, 2, 3, 16}, 16, kSame},
      {"bias", {2, 5, 5, 16}, 32, {.kernel = 3, .padding = 1, .bias = true}},
      {"bias_of_many_pixels", {1, 33, 34, 16}, 16, {.kernel = 3, .padding = 1, .bias = true}},
      {"channels_beyond_a_chunk", {1, 4, 5, 80}, 16, kSame},
      {"outputs_beyond_a_chunk", {1, 4, 5, 16}, 144, kSame},
      {"outputs_that_fill_all_tiles", {1, 4, 4, 16}, 48, kSame},
      {"slabs_of_rows", {2, 27, 40, 16}, 16, kSame},
      {"rows_longer_than_a_slab", {1, 4, 530, 16}, 16, kSame},
      {"slabs_of_images_and_a_rest", {23, 5, 5, 16}, 16, kSame},
      {"slabs_of_images_for_weights", {67, 5, 5, 16}, 16, kSame},
      {"slabs_of_rows_with_a_stride", {1, 50, 80, 16}, 16, {.kernel = 3, .stride = 2, .padding = 1}},
      {"stride_over_even_images", {2, 8, 6, 16}, 16, {.kernel = 3, .stride = 2, .padding = 1}},
      {"stride_over_odd_images", {2, 7, 9, 32}, 16, {.kernel = 3, .stride = 2, .padding = 1, .bias = true}},
      {"stride_that_skips_the_last_column", {1, 6, 8, 16}, 16, {.kernel = 3, .stride = 2}},
      {"stride_beyond_the_kernel", {1, 9, 9, 16}, 16, {.kernel = 2, .stride = 3}},
      {"stride_longer_than_any_slab", {1, 2, 2, 16}, 16, {.kernel = 2, .stride = 1025}},
      {"no_padding", {2, 6, 7, 16}, 16, {.kernel = 3}},
      {"padding_of_the_whole_kernel", {1, 4, 4, 16}, 16, {.kernel = 3, .padding = 2}},
      {"even_kernel", {1, 5, 6, 16}, 16, {.kernel = 2, .padding = 1}},
      {"kernel_of_seven", {1, 9, 9, 16}, 16, {.kernel = 7, .stride = 2, .padding = 3}},
  };
  for (std::int64_t width = 1; width <= 7; ++width) {
    all.push_back({"row_of_" + std::to_string(width), {1, 1, width, 16}, 16, kSame});
  }
  return all;
}

std::string tiled_case_name(const ::testing::TestParamInfo<TiledCase>& info) {
  return info.param.name;
}

class TiledConvolution : public ::testing::TestWithParam<TiledCase> {
 protected:
  void SetUp() override {
    if (!cpu::can_run(cpu::row_kernels_v3)) GTEST_SKIP() << "this machine has no AVX2";
  }
};

TEST_P(TiledConvolution, loss_and_gradient_are_those_of_ref) {
  const core::Graph graph = GetParam().graph();
  auto ref = backend::make_backend("ref", 1).value();
  auto cpu = backend::make_cpu_backend(1, cpu::row_kernels_v3).value();
  Bench expected(graph, *ref), actual(graph, *cpu);
  const double loss = expected.loss();
  EXPECT_NEAR(actual.loss(), loss, loss * testing::kTolerance);
  EXPECT_LT(worst_difference(expected.layout(), actual.gradient(), expected.gradient()), testing::kTolerance);
}

// All that the layer computes alone. Memory that it has not written is not a number.
struct Outcome {
  std::vector<float> y, dweight, dbias;
  std::vector<float> added, dx;  // gradients of the input, added to 3 and by themselves; empty with a stride
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome ran_on(int threads, const TiledCase& layer) {
  const core::Graph graph = layer.graph();
  const auto node =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const core::Node& it) { return it.name == "layer"; });
  const backend::Dimensions d = backend::dimensions_of(graph, *node);
  const cpu::Team team{.threads = static_cast<size_t>(threads), .kernels = cpu::row_kernels_v3};
  const cpu::TiledConvolution tiled(layer.op, d, team);
  const size_t weights = static_cast<size_t>(layer.op.kernel * layer.op.kernel) * d.in * d.out;
  const size_t read = d.samples * d.height * d.width * d.in, written = d.samples * d.out_height * d.out_width * d.out;
  std::vector<float> x(read), weight(weights), dy(written);
  std::uint64_t key = 7;
  for (auto* values : {&x, &weight, &dy}) {
    key = core::mix(key);
    for (size_t i = 0; i < values->size(); ++i) (*values)[i] = static_cast<float>(core::normal(key, i));
  }
  constexpr float kUnset = std::numeric_limits<float>::quiet_NaN();
  Outcome outcome{.y = std::vector<float>(written, kUnset),
                  .dweight = std::vector<float>(weights, 1),
                  .dbias = std::vector<float>(d.out, 2)};
  std::vector<float> scratch(tiled.output_scratch(), kUnset);
  tiled.output(x.data(), weight.data(), nullptr, scratch.data(), outcome.y.data());
  scratch.assign(tiled.parameter_gradients_scratch(), kUnset);
  tiled.parameter_gradients(x.data(), dy.data(), scratch.data(), outcome.dweight.data(), outcome.dbias.data());
  if (!tiled.gives_input_gradient()) return outcome;
  outcome.added.assign(read, 3);
  outcome.dx.assign(read, kUnset);
  scratch.assign(tiled.input_gradient_scratch(), kUnset);
  tiled.input_gradient(dy.data(), weight.data(), true, scratch.data(), outcome.added.data());
  scratch.assign(tiled.input_gradient_scratch(), kUnset);
  tiled.input_gradient(dy.data(), weight.data(), false, scratch.data(), outcome.dx.data());
  return outcome;
}

TEST_P(TiledConvolution, no_bit_depends_on_the_number_of_threads) {
  const Outcome alone = ran_on(1, GetParam());
  for (int threads : testing::thread_counts()) EXPECT_TRUE(ran_on(threads, GetParam()) == alone) << threads;
}

TEST_P(TiledConvolution, reads_no_memory_that_it_did_not_write) {
  for (int threads : testing::thread_counts()) {
    const Outcome outcome = ran_on(threads, GetParam());
    for (const auto* values : {&outcome.y, &outcome.dweight, &outcome.dbias, &outcome.added, &outcome.dx}) {
      EXPECT_TRUE(std::all_of(values->begin(), values->end(), [](float value) { return std::isfinite(value); }));
    }
  }
}

TEST_P(TiledConvolution, an_input_gradient_is_added_or_overwrites) {
  const Outcome outcome = ran_on(1, GetParam());
  for (size_t i = 0; i < outcome.dx.size(); ++i) EXPECT_NEAR(outcome.added[i], outcome.dx[i] + 3, 1e-3) << i;
}

INSTANTIATE_TEST_SUITE_P(Edges, TiledConvolution, ::testing::ValuesIn(tiled_cases()), tiled_case_name);

TEST(TiledConvolutionFits, whole_tiles_of_channels_and_kernels_of_more_than_a_pixel) {
  const cpu::Team team{.threads = 1, .kernels = cpu::row_kernels_v3};
  const backend::Dimensions d{.in = 32, .out = 48};
  EXPECT_TRUE(cpu::TiledConvolution::fits(kSame, d, team));
  EXPECT_FALSE(cpu::TiledConvolution::fits(kSame, {.in = 24, .out = 48}, team));
  EXPECT_FALSE(cpu::TiledConvolution::fits(kSame, {.in = 32, .out = 40}, team));
  EXPECT_FALSE(cpu::TiledConvolution::fits({.kernel = 1}, d, team)) << "the library has products of matrices";
  EXPECT_FALSE(cpu::TiledConvolution::fits({.kernel = 3, .padding = 1, .groups = 2}, d, team));
  EXPECT_FALSE(cpu::TiledConvolution::fits(kSame, d, {.threads = 1, .kernels = cpu::row_kernels_v4}))
      << "tiles are for AVX2";
}

}  // namespace
}  // namespace lockstep::trainer
