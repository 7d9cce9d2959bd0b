// Every layer's gradient: ref against central differences, cpu against ref.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

#include "tests/sanitizer.h"
#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/image_layers.h"
#include "tests/trainer/backend/layer_checks.h"
#include "tests/trainer/backend/layers.h"
#include "tests/trainer/core/threads.h"
#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/make_backend.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet.h"

namespace lockstep::trainer {
namespace {

using testing::Bench;
using testing::case_name;
using testing::expect_a_nan_to_reach_the_loss;
using testing::kTolerance;
using testing::LayerCase;
using testing::worst_difference;

void expect_gradients_of_ref(const char* name, const core::Graph& graph, std::int32_t classes) {
  auto cpu = backend::make_backend("cpu", 1).value();
  testing::expect_gradients_of_ref(name, graph, classes, *cpu);
}

std::vector<double> central_differences(Bench& bench) {
  constexpr double kStep = 1e-4;  // of a formula of fourth order: its error is below the rounding
  std::vector<double> all(bench.layout().count);
  for (const core::Segment& segment : bench.layout().segments) {
    for (size_t i = segment.offset; i < segment.offset + segment.count; ++i) {
      double at = bench.parameter(i);
      auto loss = [&](double x) {
        bench.set_parameter(i, x);
        return bench.loss();
      };
      all[i] =
          (loss(at - 2 * kStep) - 8 * loss(at - kStep) + 8 * loss(at + kStep) - loss(at + 2 * kStep)) / (12 * kStep);
      bench.set_parameter(i, at);
    }
  }
  return all;
}

class Layer : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Layer, gradient_of_ref_is_what_central_differences_say) {
  auto backend = backend::make_backend("ref", 1).value();
  core::Graph graph = GetParam().graph();
  Bench bench(graph, *backend, GetParam().classes);
  std::vector<double> gradient = bench.gradient();
  EXPECT_LT(worst_difference(bench.layout(), gradient, central_differences(bench)), 1e-7);
}

INSTANTIATE_TEST_SUITE_P(Small, Layer, ::testing::ValuesIn(testing::layer_cases(5, 4)), case_name);
INSTANTIATE_TEST_SUITE_P(Images, Layer, ::testing::ValuesIn(testing::image_layer_cases(5, 4)), case_name);

class CpuLayer : public ::testing::TestWithParam<LayerCase> {};

TEST_P(CpuLayer, loss_and_gradient_are_those_of_ref_for_every_isa_and_thread_count) {
  auto ref = backend::make_backend("ref", 1).value();
  core::Graph graph = GetParam().graph();
  Bench expected(graph, *ref, GetParam().classes);
  double loss = expected.loss();
  std::vector<double> gradient = expected.gradient();
  const double evaluated = expected.loss(core::RunContext::Mode::kEvaluate);
  double tolerance = kTolerance * std::sqrt(70.0);
  for (const auto* kernels :
       {&backend::cpu::row_kernels_baseline, &backend::cpu::row_kernels_v3, &backend::cpu::row_kernels_v4}) {
    if (!backend::cpu::can_run(*kernels)) continue;
    for (int threads : testing::thread_counts()) {
      SCOPED_TRACE(std::string(kernels->name) + " with threads: " + std::to_string(threads));
      auto cpu = backend::make_cpu_backend(threads, *kernels).value();
      Bench bench(graph, *cpu, GetParam().classes);
      EXPECT_NEAR(bench.loss(), loss, std::fabs(loss) * tolerance);
      EXPECT_LT(worst_difference(bench.layout(), bench.gradient(), gradient), tolerance);
      EXPECT_NEAR(bench.loss(core::RunContext::Mode::kEvaluate), evaluated, std::fabs(evaluated) * tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Odd, CpuLayer, ::testing::ValuesIn(testing::layer_cases(37, 21)), case_name);
INSTANTIATE_TEST_SUITE_P(Even, CpuLayer, ::testing::ValuesIn(testing::layer_cases(32, 64)), case_name);
INSTANTIATE_TEST_SUITE_P(Attention, CpuLayer, ::testing::ValuesIn(testing::attention_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(OddImages, CpuLayer, ::testing::ValuesIn(testing::image_layer_cases(7, 6)), case_name);
// Rows long enough that sums of depthwise weights' gradients are cut, and strides that the library has with AVX2.
INSTANTIATE_TEST_SUITE_P(LargeImages, CpuLayer, ::testing::ValuesIn(testing::image_layer_cases(23, 8)), case_name);
INSTANTIATE_TEST_SUITE_P(EvenImages, CpuLayer, ::testing::ValuesIn(testing::image_layer_cases(7, 32)), case_name);

// A layer whose input gradient the library computes in a layout of its own with AVX-512.
TEST(Conv2d, gradients_of_many_channels_in_long_rows_are_those_of_ref) {
  core::GraphBuilder build(1);
  auto x = build.parameter("x", {1, 15, 15, 2}, core::Fill::kNormal, 1.0);
  auto y = core::ops::conv2d(build, "layer", x, 512, {.kernel = 3, .padding = 1}, 0.3);
  y = core::ops::linear(build, "head", core::ops::flatten(build, "flat", y), 2);
  auto target = build.real_input("target", {1, 2});
  core::Graph graph = build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
  auto ref = backend::make_backend("ref", 1).value(), cpu = backend::make_backend("cpu", 1).value();
  Bench expected(graph, *ref), actual(graph, *cpu);
  EXPECT_LT(worst_difference(expected.layout(), actual.gradient(), expected.gradient()), kTolerance * std::sqrt(70.0));
}

TEST(LabelSmoothing, has_the_loss_worked_out_by_hand) {
  core::GraphBuilder build(1);
  const core::TensorId x = build.parameter("x", {1, 3}, core::Fill::kNormal, 1.0);
  const core::TensorId classes = build.index_input("classes", {1});
  const core::Graph graph = build.finish(x, core::ops::softmax_cross_entropy(build, "loss", x, classes, 0.3));
  for (const char* name : {"ref", "cpu"}) {
    auto backend = backend::make_backend(name, 1).value();
    Bench bench(graph, *backend, 1);  // the class is 0
    for (size_t i = 0; i < 3; ++i) bench.set_parameter(i, std::log(i == 0 ? 1 : i == 1 ? 2 : 5));
    // Targets 0.8, 0.1, 0.1 and probabilities 1/8, 2/8, 5/8.
    EXPECT_NEAR(bench.loss(), std::log(8) - 0.1 * std::log(10), 1e-6) << name;
  }
}

class OnlyPath : public ::testing::TestWithParam<LayerCase> {};

TEST_P(OnlyPath, a_nan_in_a_parameter_reaches_the_loss_of_ref) {
  auto backend = backend::make_backend("ref", 1).value();
  core::Graph graph = GetParam().graph();
  Bench bench(graph, *backend, GetParam().classes);
  expect_a_nan_to_reach_the_loss(bench);
}

TEST_P(OnlyPath, a_nan_in_a_parameter_reaches_the_loss_with_every_instruction_set) {
  core::Graph graph = GetParam().graph();
  for (const auto* kernels :
       {&backend::cpu::row_kernels_baseline, &backend::cpu::row_kernels_v3, &backend::cpu::row_kernels_v4}) {
    if (!backend::cpu::can_run(*kernels)) continue;
    SCOPED_TRACE(kernels->name);
    auto backend = backend::make_cpu_backend(1, *kernels).value();
    Bench bench(graph, *backend, GetParam().classes);
    expect_a_nan_to_reach_the_loss(bench);
  }
}

INSTANTIATE_TEST_SUITE_P(Small, OnlyPath, ::testing::ValuesIn(testing::layer_cases(5, 4, false)), case_name);
INSTANTIATE_TEST_SUITE_P(Odd, OnlyPath, ::testing::ValuesIn(testing::layer_cases(37, 21, false)), case_name);
INSTANTIATE_TEST_SUITE_P(Attention, OnlyPath, ::testing::ValuesIn(testing::attention_cases(false)), case_name);
INSTANTIATE_TEST_SUITE_P(Images, OnlyPath, ::testing::ValuesIn(testing::image_layer_cases(5, 4, false)), case_name);
INSTANTIATE_TEST_SUITE_P(WideImages, OnlyPath, ::testing::ValuesIn(testing::image_layer_cases(5, 16, false)),
                         case_name);

TEST(CausalAttention, reads_no_memory_that_it_did_not_write) {
  auto backend = backend::make_backend("cpu", 1).value();
  core::GraphBuilder build(2);
  auto x = build.parameter("x", {300, 16}, core::Fill::kNormal, 1.0);
  // The gradient of what attention reads lies in the program's arena as well.
  auto y = core::ops::causal_attention(build, "layer", core::ops::linear(build, "qkv", x, 48), 2);
  auto target = build.real_input("target", {300, 16});
  core::Graph graph = build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
  Bench bench(graph, *backend, 1, {.share_memory = false});
  const std::vector<double> gradient = bench.gradient();
  const std::span<std::byte> arena = bench.program().arena();
  std::fill_n(reinterpret_cast<float*>(arena.data()), arena.size() / sizeof(float),
              std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(bench.gradient(), gradient);
}

TEST(CausalAttention, a_nan_in_a_key_changes_no_row_before_it) {
  constexpr size_t kPositions = 100, kWidth = 16;
  auto backend = backend::make_backend("cpu", 1).value();
  core::Graph graph = testing::attention_case("", kPositions, kWidth / 2, false).graph();
  Bench bench(graph, *backend);
  const auto outputs = [&] {
    bench.loss();
    return bench.all(bench.program().data(graph.outputs.front().tensor), kPositions * kWidth);
  };
  const std::vector<double> before = outputs();
  for (size_t key : {20, 63, 64, 80}) {
    const size_t at = key * 3 * kWidth + kWidth;  // of the first sample and head
    const double value = bench.parameter(at);
    bench.set_parameter(at, std::numeric_limits<double>::quiet_NaN());
    const std::vector<double> after = outputs();
    for (size_t t = 0; t < kPositions; ++t) {
      EXPECT_EQ(after[t * kWidth] == before[t * kWidth], t < key) << "row " << t << ", key " << key;
    }
    bench.set_parameter(at, value);
  }
}

TEST(CausalAttention, the_gradient_of_a_sample_does_not_depend_on_its_batch) {
  constexpr size_t kRow = 48, kPositions = 150;
  auto graph_of = [](std::int64_t batch) {
    core::GraphBuilder build(batch);
    auto x = build.parameter("x", {batch * std::int64_t{kPositions}, kRow}, core::Fill::kNormal, 1.0);
    auto y = core::ops::causal_attention(build, "layer", x, 2);
    auto target = build.real_input("target", {batch * std::int64_t{kPositions}, kRow / 3});
    return build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
  };
  auto backend = backend::make_backend("cpu", testing::thread_counts().back()).value();
  core::Graph three = graph_of(3), one = graph_of(1);
  Bench batch(three, *backend), single(one, *backend);
  const std::vector<double> gradient = batch.gradient();
  const core::TensorId target = three.with_role(core::Role::kInput).front();
  for (size_t s = 0; s < 3; ++s) {
    constexpr size_t kSample = kPositions * kRow;
    single.set_all(single.state().parameters->data(),
                   batch.all(batch.state().parameters->data(), kSample, s * kSample));
    single.set_all(single.program().data(target),
                   batch.all(batch.program().data(target), kSample / 3, s * kSample / 3));
    const auto first = gradient.begin() + static_cast<std::ptrdiff_t>(s * kSample);
    EXPECT_EQ(single.gradient(), std::vector<double>(first, first + kSample)) << "sample " << s;
  }
}

TEST(Relu, passes_a_nan_on_forward_and_backward) {
  core::GraphBuilder build(40);
  auto x = build.parameter("x", {40, 1}, core::Fill::kNormal, 1.0);
  auto y = core::ops::relu(build, "relu", x);
  auto target = build.real_input("target", {40, 1});
  core::Graph graph = build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
  for (const char* name : {"cpu", "ref"}) {
    auto backend = backend::make_backend(name, 1).value();
    Bench bench(graph, *backend);
    for (size_t i = 0; i < 40; ++i) {
      const double value = bench.parameter(i);
      bench.set_parameter(i, std::numeric_limits<double>::quiet_NaN());
      const std::vector<double> gradient = bench.gradient();
      EXPECT_FALSE(std::isfinite(bench.loss())) << name << " at " << i;
      for (size_t k = 0; k < 40; ++k) EXPECT_EQ(std::isfinite(gradient[k]), k != i) << name << " at " << i;
      bench.set_parameter(i, value);
    }
  }
}

TEST(Relu, of_a_zero_of_either_sign_is_the_positive_zero) {
  const std::vector<float> zeros(33, -0.0f), ones(33, 1.0f);
  for (const auto* kernels :
       {&backend::cpu::row_kernels_baseline, &backend::cpu::row_kernels_v3, &backend::cpu::row_kernels_v4}) {
    if (!backend::cpu::can_run(*kernels)) continue;
    std::vector<float> y(33, 1.0f), dx(33, 1.0f);
    kernels->relu(zeros.data(), 33, y.data());
    kernels->relu_backward(zeros.data(), ones.data(), 33, false, dx.data());
    for (size_t i = 0; i < 33; ++i) EXPECT_FALSE(std::signbit(y[i]) || dx[i] != 0) << kernels->name << " at " << i;
  }
}

TEST(Gelu, is_that_of_ref_to_a_few_units_in_the_last_place_for_inputs_of_any_size) {
  std::vector<float> x{-1e18f, -1e6f, -100.0f, 0.0f, -0.0f, 1e-30f, 100.0f, 1e18f};
  for (float v = -30.0f; v < 30.0f; v += 0.0037f) x.push_back(v);
  const std::vector<float> ones(x.size(), 1.0f);
  for (const auto* kernels :
       {&backend::cpu::row_kernels_baseline, &backend::cpu::row_kernels_v3, &backend::cpu::row_kernels_v4}) {
    if (!backend::cpu::can_run(*kernels)) continue;
    std::vector<float> y(x.size()), slope(x.size());
    kernels->gelu(x.data(), x.size(), y.data());
    kernels->gelu_backward(x.data(), ones.data(), x.size(), false, slope.data());
    for (size_t i = 0; i < x.size(); ++i) {
      double v = x[i];
      double tanh = std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v));
      ASSERT_NEAR(y[i], 0.5 * v * (1 + tanh), 1e-6 * std::max(1.0, std::fabs(0.5 * v * (1 + tanh))))
          << kernels->name << " at " << v;
      if (std::fabs(v) > 1e3) continue;  // the slope's formula is 0 times infinity there, in double as well
      double expected =
          0.5 * (1 + tanh) + 0.5 * v * (1 - tanh * tanh) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * v * v);
      ASSERT_NEAR(slope[i], expected, 2e-6) << kernels->name << " at " << v;
    }
  }
}

TEST(Models, gradients_of_every_layer_of_a_char_transformer_are_those_of_ref) {
  expect_gradients_of_ref(
      "with dropout",
      models::char_transformer(
          {.batch = 2, .vocabulary = 29, .context = 16, .layers = 2, .width = 32, .heads = 4, .dropout = 0.1}),
      29);
  expect_gradients_of_ref("as lockstep-trainer makes it",
                          models::char_transformer({.batch = sanitizer::kOn ? 1 : 4, .vocabulary = 90}), 90);
}

TEST(Models, gradients_of_every_layer_of_an_mlp_are_those_of_ref) {
  expect_gradients_of_ref("with dropout",
                          models::mlp({.batch = 16, .features = 12, .width = 24, .classes = 5, .dropout = 0.2}), 5);
  expect_gradients_of_ref("as lockstep-trainer makes it", models::mlp({.batch = 4}), 10);
}

TEST(Models, gradients_of_every_layer_of_a_resnet_are_those_of_ref) {
  if (sanitizer::kOn) return;  // ref computes it for minutes
  expect_gradients_of_ref(
      "resnet18 with the stem for CIFAR",
      models::resnet18({.batch = 3, .pixels = 16, .classes = 5, .stem = models::ResNetOptions::Stem::kCifar}), 5);
}

TEST(BatchNorm, stages_mean_and_unbiased_variance_and_evaluates_committed_ones) {
  for (const char* name : {"ref", "cpu"}) {
    SCOPED_TRACE(name);
    auto backend = backend::make_backend(name, 1).value();
    core::GraphBuilder build(3);
    auto x = build.real_input("x", {3, 1});
    auto target = build.real_input("target", {3, 1});
    auto y = core::ops::batch_norm(build, "norm", x);
    core::Graph graph = build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
    Bench bench(graph, *backend);
    for (size_t i = 0; i < 3; ++i) bench.put(bench.program().data(x), i, static_cast<double>(i) * 3);  // 0, 3, 6
    bench.set_parameter(bench.layout().segments[0].offset, 2);                                         // gain
    bench.set_parameter(bench.layout().segments[1].offset, 1);                                         // shift
    bench.loss();
    EXPECT_DOUBLE_EQ(bench.staged()[0], 3);
    EXPECT_DOUBLE_EQ(bench.staged()[1], 9);
    EXPECT_DOUBLE_EQ(bench.state().statistics[0], 0) << "only commit may change it";
    bench.state().statistics = {2, 4};
    bench.loss(core::RunContext::Mode::kEvaluate);
    EXPECT_NEAR(bench.get(bench.program().data(y), 2), (6 - 2) / 2.0 * 2 + 1, 1e-5);
  }
}

TEST(Dropout, mask_depends_on_step_and_sample_not_on_the_place_in_the_batch) {
  auto backend = backend::make_backend("cpu", 1).value();
  auto graph_of = [](std::int64_t batch) {
    core::GraphBuilder build(batch);
    auto x = build.real_input("x", {batch, 200});
    auto target = build.real_input("target", {batch, 200});
    auto y = core::ops::dropout(build, "dropout", x, 0.25);
    return build.finish(y, core::ops::mean_squared_error(build, "loss", y, target));
  };
  core::Graph two = graph_of(2), one = graph_of(1);
  Bench pair(two, *backend), single(one, *backend);
  auto ones = [](Bench& bench, size_t count) {
    for (size_t i = 0; i < count; ++i) bench.put(bench.program().data(0), i, 1);
  };
  ones(pair, 400);
  ones(single, 200);
  pair.context.first_sample = 6;
  single.context.first_sample = 7;
  pair.loss();
  single.loss();
  auto mask = [](Bench& bench, size_t from) {
    std::vector<double> values;
    for (size_t i = 0; i < 200; ++i) values.push_back(bench.get(bench.program().data(2), from + i));
    return values;
  };
  EXPECT_EQ(mask(pair, 200), mask(single, 0));
  EXPECT_NE(mask(pair, 0), mask(pair, 200));
  std::vector<double> before = mask(single, 0);
  auto dropped = std::count(before.begin(), before.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(dropped), 50, 25);
  single.context.step += 1;
  single.loss();
  EXPECT_NE(mask(single, 0), before);
}

TEST(MakeBackend, refuses_an_unknown_name_and_impossible_threads) {
  EXPECT_EQ(backend::make_backend("gpu", 1).error().message, "there is no backend 'gpu'; choose cpu, cuda or ref");
  EXPECT_EQ(backend::make_backend("cpu", 0).error().code, ErrorCode::kInvalid);
}

TEST(CpuBackend, numerics_name_the_library_instructions_and_threads) {
  auto backend = backend::make_backend("cpu", 2).value();
  EXPECT_THAT(backend->numerics(), ::testing::HasSubstr("onednn-"));
  EXPECT_THAT(backend->numerics(), ::testing::HasSubstr("threads-2"));
}

}  // namespace
}  // namespace lockstep::trainer
