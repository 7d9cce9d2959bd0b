// Layers in TF32 on the CUDA backend under test, beside ref.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/cuda/under_test.h"
#include "tests/trainer/backend/image_layers.h"
#include "tests/trainer/backend/layer_checks.h"
#include "tests/trainer/backend/layers.h"
#include "trainer/backend/make_backend.h"

namespace lockstep::trainer::tf32_test {
namespace {

using testing::Bench;
using testing::case_name;
using testing::LayerCase;

// The stated tolerance of TF32: 1e-3 times the root of the longest sum.
const double kTolerance = 1e-3 * std::sqrt(70.0);

class Tf32Layer : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Tf32Layer, loss_and_gradient_are_those_of_ref) {
  auto ref = backend::make_backend("ref", 1).value();
  auto cuda = testing::gpu_in_tf32();
  const core::Graph graph = GetParam().graph();
  Bench expected(graph, *ref, GetParam().classes), actual(graph, *cuda, GetParam().classes);
  const double loss = expected.loss();
  EXPECT_NEAR(actual.loss(), loss, std::fabs(loss) * kTolerance);
  const std::vector<double> gradient = actual.gradient();
  EXPECT_LT(testing::worst_difference(expected.layout(), gradient, expected.gradient()), kTolerance);
  EXPECT_EQ(actual.gradient(), gradient) << "not the same bits again";
}

INSTANTIATE_TEST_SUITE_P(Small, Tf32Layer, ::testing::ValuesIn(testing::layer_cases(5, 4)), case_name);
INSTANTIATE_TEST_SUITE_P(SmallImages, Tf32Layer, ::testing::ValuesIn(testing::image_layer_cases(5, 4)), case_name);

TEST(Tf32, is_named_by_the_numerics) {
  EXPECT_THAT(testing::gpu_in_tf32()->numerics(), ::testing::StartsWith("cuda/tf32/"));
  EXPECT_THAT(testing::gpu()->numerics(), ::testing::StartsWith("cuda/float32/"));
}

}  // namespace
}  // namespace lockstep::trainer::tf32_test
