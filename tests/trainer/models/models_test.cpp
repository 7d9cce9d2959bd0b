#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/backend/bench.h"
#include "tests/trainer/models/parameters.h"
#include "trainer/backend/make_backend.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/generate.h"
#include "trainer/models/linear_regression.h"
#include "trainer/models/mlp.h"
#include "trainer/models/mobilenet_v2.h"
#include "trainer/models/resnet.h"
#include "trainer/models/vgg_a.h"

namespace lockstep::trainer::models {
namespace {

TEST(Models, have_as_many_parameters_as_their_formulas_say) {
  EXPECT_EQ(parameters_of(linear_regression(4)), 2U);  // those of the image networks are torchvision's
  EXPECT_EQ(parameters_of(mlp({.features = 32, .width = 128, .layers = 2, .classes = 10})),
            32U * 128 + 128 * 128 + 2 * 2 * 128 + 128 * 10 + 10);
  EXPECT_EQ(parameters_of(mobilenet_v2({})), 3'504'872U);
  EXPECT_EQ(parameters_of(resnet18({})), 11'689'512U);
  EXPECT_EQ(parameters_of(resnet18({.pixels = 32, .classes = 10, .stem = ResNetOptions::Stem::kCifar})),
            11'689'512U - 990 * 513 - 64 * 3 * (7 * 7 - 3 * 3));
  EXPECT_EQ(parameters_of(resnet50({})), 25'557'032U);
  EXPECT_EQ(parameters_of(vgg_a({})), 132'863'336U);
  size_t v = 90, t = 64, c = 128, block = 12 * c * c + 13 * c;
  EXPECT_EQ(parameters_of(char_transformer({.vocabulary = 90, .context = 64, .layers = 4, .width = 128})),
            v * c + t * c + 4 * block + 2 * c + c * v);
}

TEST(Models, cost_as_many_operations_as_published) {
  const auto forward = [](const core::Graph& graph) {
    return core::flops_of(graph).forward / static_cast<double>(graph.batch);
  };
  // Multiplications with additions, of an image of 224 x 224.
  EXPECT_NEAR(forward(resnet18({})) / 2, 1.81e9, 0.01e9);
  EXPECT_NEAR(forward(resnet50({})) / 2, 4.09e9, 0.005e9);
  EXPECT_NEAR(forward(mobilenet_v2({})) / 2, 0.30e9, 0.005e9);
  EXPECT_NEAR(forward(vgg_a({})) / 2, 7.6e9, 0.05e9);
  const double t = 64, c = 128, v = 90, block = 12 * c * c + c * (t + 1);
  EXPECT_EQ(forward(char_transformer({.vocabulary = 90, .context = 64, .layers = 4, .width = 128})),
            2 * t * (4 * block + c * v));
}

TEST(Models, a_backward_pass_costs_two_forwards_less_the_images_gradient) {
  const core::Graph graph = resnet50({.batch = 2});
  const core::Flops flops = core::flops_of(graph);
  EXPECT_EQ(flops.backward, 2 * flops.forward - 2 * 2.0 * 112 * 112 * 64 * 7 * 7 * 3);
  const core::Graph text = char_transformer({.batch = 2, .vocabulary = 90});
  EXPECT_EQ(core::flops_of(text).backward, 2 * core::flops_of(text).forward) << "indices cost nothing";
}

TEST(CharTransformer, starts_near_the_loss_of_guessing) {
  auto backend = backend::make_backend("cpu", 1).value();
  core::Graph graph = char_transformer({.batch = 4, .vocabulary = 60, .context = 32, .layers = 2, .width = 64});
  testing::Bench bench(graph, *backend, 60);
  ASSERT_TRUE(bench.state().initialize(1).ok());
  EXPECT_NEAR(bench.loss() / 4, std::log(60.0), 0.25);
}

TEST(CharTransformer, no_position_sees_later_ones) {
  auto backend = backend::make_backend("ref", 1).value();
  core::Graph graph =
      char_transformer({.batch = 1, .vocabulary = 9, .context = 8, .layers = 2, .width = 16, .heads = 2});
  testing::Bench bench(graph, *backend, 9);
  auto scores = [&] {
    bench.loss();
    const auto* data = static_cast<const double*>(bench.program().data(graph.outputs[0].tensor));
    return std::vector<double>(data, data + 8 * 9);
  };
  std::vector<double> before = scores();
  auto* characters = static_cast<std::int32_t*>(bench.program().data(0));
  characters[5] = (characters[5] + 1) % 9;
  std::vector<double> after = scores();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 5 * 9, after.begin()));
  EXPECT_FALSE(std::equal(before.begin() + 5 * 9, before.begin() + 6 * 9, after.begin() + 5 * 9));
}

TEST(Generate, is_a_function_of_the_seed_and_takes_the_likeliest_at_temperature_zero) {
  auto backend = backend::make_backend("cpu", 1).value();
  core::Graph graph =
      char_transformer({.batch = 1, .vocabulary = 20, .context = 8, .layers = 1, .width = 16, .heads = 2});
  testing::Bench bench(graph, *backend, 20);
  auto text = [&](double temperature, std::uint64_t seed) {
    return generate(bench.program(), {.count = 30, .temperature = temperature, .seed = seed}, bench.abort).value();
  };
  EXPECT_EQ(text(0.8, 1).size(), 30U);
  EXPECT_EQ(text(0.8, 1), text(0.8, 1));
  EXPECT_NE(text(0.8, 1), text(0.8, 2));
  EXPECT_EQ(text(0, 1), text(0, 2));
}

TEST(Generate, continues_the_prompt_and_ends_runs_of_one_character) {
  auto backend = backend::make_backend("cpu", 1).value();
  core::Graph graph =
      char_transformer({.batch = 1, .vocabulary = 20, .context = 8, .layers = 1, .width = 16, .heads = 2});
  testing::Bench bench(graph, *backend, 20);
  auto text = [&](std::int64_t longest_run, std::vector<std::uint8_t> prompt) {
    GenerateOptions options{.count = 40, .temperature = 0, .longest_run = longest_run, .prompt = std::move(prompt)};
    return generate(bench.program(), options, bench.abort).value();
  };
  EXPECT_NE(text(40, {1, 2, 3}), text(40, {4, 5, 6}));
  auto longest = [](const std::vector<std::uint8_t>& tokens) {
    size_t run = 0, most = 0;
    for (size_t i = 0; i < tokens.size(); ++i)
      most = std::max(most, run = i > 0 && tokens[i] == tokens[i - 1] ? run + 1 : 1);
    return most;
  };
  EXPECT_GT(longest(text(40, {1})), 1U);
  EXPECT_EQ(longest(text(1, {1})), 1U);
}

}  // namespace
}  // namespace lockstep::trainer::models
