// Layers in bfloat16 on the CUDA backend under test, beside ref, which has neither its rounding nor its ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "tests/sanitizer.h"
#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/cuda/under_test.h"
#include "tests/trainer/backend/image_layers.h"
#include "tests/trainer/backend/layer_checks.h"
#include "tests/trainer/backend/layers.h"
#include "trainer/backend/make_backend.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet.h"

namespace lockstep::trainer::bfloat16_test {
namespace {

using testing::Bench;
using testing::case_name;
using testing::gpu_in_bfloat16;
using testing::LayerCase;

// From one number of 8 bits to the next, relative to it. Rounding moves a number by half of that at most.
constexpr double kUnit = 0x1.0p-7;

// Of a loss, the mean of many numbers.
constexpr double kLossTolerance = 2 * kUnit;

bool is_image(const core::Graph& graph) {
  return std::ranges::any_of(graph.tensors, [](const core::Tensor& tensor) { return tensor.shape.size() == 4; });
}

// A number is rounded in each of a few layers on its way. Of images, many gradients sum up and cancel; a number next to
// the corner of a ReLU may fall on the other side, and a pixel may tie with the largest.
double gradient_tolerance(const core::Graph& graph) {
  return (is_image(graph) ? 16 : 4) * kUnit;
}

// The root of the squares of all differences between the gradients of one tensor, relative to that of the gradients.
double worst_difference(const core::Layout& layout, const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (const core::Segment& segment : layout.segments) {
    double differences = 0, squares = 1e-24;
    for (size_t i = segment.offset; i < segment.offset + segment.count; ++i) {
      differences += (a[i] - b[i]) * (a[i] - b[i]);
      squares += b[i] * b[i];
    }
    worst = std::max(worst, std::sqrt(differences / squares));
  }
  return worst;
}

class Bfloat16Layer : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Bfloat16Layer, loss_and_gradient_are_those_of_ref) {
  auto ref = backend::make_backend("ref", 1).value();
  auto cuda = gpu_in_bfloat16();
  const core::Graph graph = GetParam().graph();
  Bench expected(graph, *ref, GetParam().classes), actual(graph, *cuda, GetParam().classes);
  const double loss = expected.loss(), evaluated = expected.loss(core::RunContext::Mode::kEvaluate);
  EXPECT_NEAR(actual.loss(), loss, std::fabs(loss) * kLossTolerance);
  const std::vector<double> gradient = actual.gradient();
  EXPECT_LT(worst_difference(expected.layout(), gradient, expected.gradient()), gradient_tolerance(graph));
  EXPECT_NEAR(actual.loss(core::RunContext::Mode::kEvaluate), evaluated, std::fabs(evaluated) * kLossTolerance);
  EXPECT_EQ(actual.gradient(), gradient) << "not the same bits again";
}

INSTANTIATE_TEST_SUITE_P(Small, Bfloat16Layer, ::testing::ValuesIn(testing::layer_cases(5, 4)), case_name);
// A sanitizer slows the emulator down more than other code.
constexpr std::int64_t kRows = sanitizer::kOn ? 8 : 32;
INSTANTIATE_TEST_SUITE_P(Even, Bfloat16Layer, ::testing::ValuesIn(testing::layer_cases(kRows, 64)), case_name);
INSTANTIATE_TEST_SUITE_P(SmallImages, Bfloat16Layer, ::testing::ValuesIn(testing::image_layer_cases(5, 4)), case_name);
INSTANTIATE_TEST_SUITE_P(EvenImages, Bfloat16Layer, ::testing::ValuesIn(testing::image_layer_cases(8, 16)), case_name);

class Bfloat16OnlyPath : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Bfloat16OnlyPath, a_nan_in_a_parameter_reaches_the_loss) {
  auto cuda = gpu_in_bfloat16();
  const core::Graph graph = GetParam().graph();
  Bench bench(graph, *cuda, GetParam().classes);
  testing::expect_a_nan_to_reach_the_loss(bench);
}

INSTANTIATE_TEST_SUITE_P(Small, Bfloat16OnlyPath, ::testing::ValuesIn(testing::layer_cases(5, 4, false)), case_name);
// A NaN takes the way of other numbers: a sanitizer has seen it.
INSTANTIATE_TEST_SUITE_P(SmallImages, Bfloat16OnlyPath,
                         ::testing::ValuesIn(sanitizer::kOn ? std::vector<LayerCase>()
                                                            : testing::image_layer_cases(5, 4, false)),
                         case_name);

TEST(Bfloat16, recomputed_norms_change_no_bit) {
  auto cuda = gpu_in_bfloat16();
  testing::expect_the_same_bits_of_cheap_layers(*cuda);
  testing::expect_less_memory_recomputed(
      "resnet18", models::resnet18({.batch = 2, .pixels = 32, .classes = 5, .width = 4}), 5, *cuda, 0.97);
}

// The state of another rank is installed while a program exists: what it derived from the old one is stale.
TEST(Bfloat16, copies_of_parameters_follow_the_state) {
  auto cuda = gpu_in_bfloat16();
  for (const LayerCase& layer : {testing::layer_cases(5, 4).front(), testing::image_layer_cases(5, 4)[3]}) {
    SCOPED_TRACE(layer.name);
    const core::Graph graph = layer.graph();
    Bench bench(graph, *cuda), other(graph, *cuda, 1, {}, 0.5);
    const std::vector<double> before = bench.gradient(), expected = other.gradient();
    ASSERT_NE(before, expected);
    const size_t bytes = bench.state().bytes();
    ASSERT_TRUE(other.state().fetch());
    std::vector<std::byte> image;
    for (const core::State::Block& block : other.state().image()) {
      image.insert(image.end(), block.data, block.data + block.bytes);
    }
    ASSERT_EQ(image.size(), bytes);
    ASSERT_TRUE(bench.state().install(image.data(), 1));
    EXPECT_EQ(bench.gradient(), expected);
  }
}

// What evaluation ranks classes by: 8 bits would tie many of them.
TEST(Bfloat16, scores_of_a_linear_layer_are_float32) {
  auto cuda = gpu_in_bfloat16();
  const core::Graph graph = models::mlp({.batch = 16, .width = 32, .layers = 2});
  Bench bench(graph, *cuda, 10);
  bench.loss();
  const core::TensorId scores = graph.outputs.front().tensor;
  const std::vector<double> values =
      bench.all(bench.program().data(scores), static_cast<size_t>(core::count_of(graph.tensor(scores).shape)));
  const auto has_8_bits = [](double value) {
    return (std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0xffff) == 0;
  };
  EXPECT_LT(std::ranges::count_if(values, has_8_bits), static_cast<std::ptrdiff_t>(values.size()) / 8);
}

TEST(Bfloat16, halves_the_memory_of_activations) {
  auto narrow = gpu_in_bfloat16(), wide = testing::gpu();
  const core::Graph graph = models::mlp({.batch = 16, .width = 256, .layers = 4});
  Bench bench(graph, *narrow, 10), other(graph, *wide, 10);
  const auto activations = [&graph](core::Backend& backend) {
    const core::Lowered lowered = backend.lower(graph, true).value();
    size_t bytes = 0;
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      if (graph.tensors[i].role == core::Role::kActivation) bytes += lowered.value_bytes[i] + lowered.gradient_bytes[i];
    }
    return bytes;
  };
  EXPECT_LT(activations(*narrow), activations(*wide) * 51 / 100);
}

}  // namespace
}  // namespace lockstep::trainer::bfloat16_test
