// Layers in TF32 on the fakes, beside ref and beside themselves in float32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "tests/sanitizer.h"
#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "tests/trainer/backend/cuda/on_fake.h"
#include "tests/trainer/backend/image_layers.h"
#include "tests/trainer/backend/layer_checks.h"
#include "tests/trainer/backend/layers.h"
#include "trainer/backend/make_backend.h"

namespace lockstep::trainer {
namespace {

using testing::Bench;
using testing::LayerCase;

TEST(FakeTf32, keeps_10_bits_of_mantissa_and_rounds_ties_away_from_zero) {
  EXPECT_EQ(cuda::fake::to_tf32(1 + 0x1.0p-10F), 1 + 0x1.0p-10F);
  EXPECT_EQ(cuda::fake::to_tf32(1 + 0x1.0p-11F), 1 + 0x1.0p-10F);
  EXPECT_EQ(cuda::fake::to_tf32(-1 - 0x1.0p-11F), -1 - 0x1.0p-10F);
  EXPECT_EQ(cuda::fake::to_tf32(1 + 0x1.8p-12F), 1);
  EXPECT_TRUE(std::isinf(cuda::fake::to_tf32(INFINITY)));
  EXPECT_TRUE(std::isnan(cuda::fake::to_tf32(NAN)));
}

// The stated tolerance of TF32: 1e-3 times the root of the longest sum.
const double kTolerance = 1e-3 * std::sqrt(70.0);

std::string case_name(const ::testing::TestParamInfo<LayerCase>& info) {
  return info.param.name;
}

std::vector<LayerCase> without_threads(std::vector<LayerCase> cases) {
  if (sanitizer::kThreads) cases.clear();
  return cases;
}

class Tf32Layer : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Tf32Layer, loss_and_gradient_are_those_of_ref) {
  auto ref = backend::make_backend("ref", 1).value();
  auto cuda = testing::fake_gpu_in_tf32();
  const core::Graph graph = GetParam().graph();
  Bench expected(graph, *ref, GetParam().classes), actual(graph, *cuda, GetParam().classes);
  const double loss = expected.loss();
  EXPECT_NEAR(actual.loss(), loss, std::fabs(loss) * kTolerance);
  const std::vector<double> gradient = actual.gradient();
  EXPECT_LT(testing::worst_difference(expected.layout(), gradient, expected.gradient()), kTolerance);
  EXPECT_EQ(actual.gradient(), gradient) << "not the same bits again";
}

INSTANTIATE_TEST_SUITE_P(Small, Tf32Layer, ::testing::ValuesIn(testing::layer_cases(5, 4)), case_name);
INSTANTIATE_TEST_SUITE_P(SmallImages, Tf32Layer, ::testing::ValuesIn(without_threads(testing::image_layer_cases(5, 4))),
                         case_name);

// The gradient of each parameter of a layer by itself, on this backend.
std::vector<double> gradient_of(const LayerCase& layer, core::Backend& backend) {
  const core::Graph graph = layer.graph();
  return Bench(graph, backend, layer.classes).gradient();
}

// Own kernels compute in float32: TF32 is a matter of the libraries alone.
TEST(Tf32, changes_products_and_convolutions_alone) {
  auto wide = testing::fake_gpu(), rounding = testing::fake_gpu_in_tf32();
  int with = 0, without = 0;
  for (const LayerCase& layer : testing::layer_cases(5, 4, false)) {
    SCOPED_TRACE(layer.name);
    bool multiplies = false;
    const core::Graph graph = layer.graph();
    for (const core::Node& node : graph.nodes) multiplies |= std::holds_alternative<core::ops::Linear>(node.op);
    const std::vector<double> one = gradient_of(layer, *wide), other = gradient_of(layer, *rounding);
    EXPECT_EQ(one != other, multiplies);
    ++(multiplies ? with : without);
  }
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
}

TEST(Tf32, is_named_by_the_numerics) {
  EXPECT_THAT(testing::fake_gpu_in_tf32()->numerics(), ::testing::StartsWith("cuda/tf32/"));
  EXPECT_THAT(testing::fake_gpu()->numerics(), ::testing::StartsWith("cuda/float32/"));
}

}  // namespace
}  // namespace lockstep::trainer
