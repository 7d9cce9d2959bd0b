// Every layer, and the gradients of whole models, on the CUDA backend under test, beside ref.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/sanitizer.h"
#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/cuda/under_test.h"
#include "tests/trainer/backend/image_layers.h"
#include "tests/trainer/backend/layer_checks.h"
#include "tests/trainer/backend/layers.h"
#include "trainer/backend/make_backend.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/linear_regression.h"
#include "trainer/models/mlp.h"
#include "trainer/models/mobilenet_v2.h"
#include "trainer/models/resnet.h"
#include "trainer/models/vgg_a.h"

namespace lockstep::trainer::layers_test {
namespace {

using testing::Bench;
using testing::case_name;
using testing::gpu;
using testing::LayerCase;

class CudaLayer : public ::testing::TestWithParam<LayerCase> {
 protected:
  ~CudaLayer() override { testing::begin_run(0); }
};

TEST_P(CudaLayer, loss_and_gradient_are_those_of_ref_in_every_order_of_threads) {
  auto ref = backend::make_backend("ref", 1).value();
  auto cuda = gpu();
  const core::Graph graph = GetParam().graph();
  Bench expected(graph, *ref, GetParam().classes), actual(graph, *cuda, GetParam().classes);
  const double tolerance = testing::kTolerance * std::sqrt(70.0);
  const double evaluated = expected.loss(core::RunContext::Mode::kEvaluate), loss = expected.loss();
  const std::vector<double> gradient_of_ref = expected.gradient();
  std::vector<double> gradient;
  for (int run = 0; run < testing::runs(); ++run) {
    SCOPED_TRACE(::testing::Message() << "run " << run);
    testing::begin_run(run);
    EXPECT_NEAR(actual.loss(core::RunContext::Mode::kEvaluate), evaluated, std::fabs(evaluated) * tolerance);
    EXPECT_NEAR(actual.loss(), loss, std::fabs(loss) * tolerance);
    const std::vector<double> now = actual.gradient();
    EXPECT_LT(testing::worst_difference(expected.layout(), now, gradient_of_ref), tolerance);
    if (gradient.empty()) gradient = now;
    EXPECT_EQ(now, gradient) << "not the bits of the first run";
    ASSERT_EQ(actual.staged().size(), expected.staged().size());
    for (size_t i = 0; i < expected.staged().size(); ++i) {
      EXPECT_NEAR(actual.staged()[i], expected.staged()[i], tolerance) << "statistic " << i << " of the batch";
    }
  }
  EXPECT_EQ(actual.overwritten_gradient(), gradient);
}

INSTANTIATE_TEST_SUITE_P(Small, CudaLayer, ::testing::ValuesIn(testing::layer_cases(5, 4)), case_name);
// A sanitizer slows the emulator down more than other code.
constexpr std::int64_t kRows = sanitizer::kOn ? 9 : 37, kEvenRows = sanitizer::kOn ? 8 : 32;
INSTANTIATE_TEST_SUITE_P(Odd, CudaLayer, ::testing::ValuesIn(testing::layer_cases(kRows, 21)), case_name);
INSTANTIATE_TEST_SUITE_P(Even, CudaLayer, ::testing::ValuesIn(testing::layer_cases(kEvenRows, 64)), case_name);
INSTANTIATE_TEST_SUITE_P(SmallImages, CudaLayer, ::testing::ValuesIn(testing::image_layer_cases(5, 4)), case_name);
INSTANTIATE_TEST_SUITE_P(OddImages, CudaLayer, ::testing::ValuesIn(testing::image_layer_cases(7, 10)), case_name);
INSTANTIATE_TEST_SUITE_P(EvenImages, CudaLayer, ::testing::ValuesIn(testing::image_layer_cases(8, 16)), case_name);

class CudaOnlyPath : public ::testing::TestWithParam<LayerCase> {};

TEST_P(CudaOnlyPath, a_nan_in_a_parameter_reaches_the_loss) {
  auto cuda = gpu();
  const core::Graph graph = GetParam().graph();
  Bench bench(graph, *cuda, GetParam().classes);
  testing::expect_a_nan_to_reach_the_loss(bench);
}

INSTANTIATE_TEST_SUITE_P(Small, CudaOnlyPath, ::testing::ValuesIn(testing::layer_cases(5, 4, false)), case_name);
INSTANTIATE_TEST_SUITE_P(SmallImages, CudaOnlyPath, ::testing::ValuesIn(testing::image_layer_cases(5, 4, false)),
                         case_name);

TEST(CudaModels, gradients_of_every_layer_are_those_of_ref) {
  auto cuda = gpu();
  testing::expect_gradients_of_ref("linear regression", models::linear_regression(4), 1, *cuda);
  testing::expect_gradients_of_ref(
      "mlp", models::mlp({.batch = 16, .features = 12, .width = 24, .classes = 5, .dropout = 0.2}), 5, *cuda);
  testing::expect_gradients_of_ref(
      "char-transformer",
      models::char_transformer(
          {.batch = 2, .vocabulary = 29, .context = 16, .layers = 2, .width = 32, .heads = 4, .dropout = 0.1}),
      29, *cuda);
}

TEST(CudaModels, gradients_of_every_layer_of_an_image_model_are_those_of_ref) {
  auto cuda = gpu();
  testing::expect_gradients_of_ref(
      "resnet18 with the stem for CIFAR",
      models::resnet18(
          {.batch = 2, .pixels = 16, .classes = 5, .width = 8, .stem = models::ResNetOptions::Stem::kCifar}),
      5, *cuda);
  if (sanitizer::kOn) return;  // the others differ in shapes, and take minutes
  testing::expect_gradients_of_ref("resnet18", models::resnet18({.batch = 2, .pixels = 64, .classes = 5, .width = 4}),
                                   5, *cuda);
  constexpr double kSmall = 0.02;
  testing::expect_gradients_of_ref("resnet50", models::resnet50({.batch = 4, .pixels = 64, .classes = 5, .width = 4}),
                                   5, *cuda, kSmall);
  testing::expect_gradients_of_ref("mobilenet-v2", models::mobilenet_v2({.batch = 4, .pixels = 64, .classes = 5}), 5,
                                   *cuda, kSmall);
  testing::expect_gradients_of_ref("vgg-a", models::vgg_a({.batch = 2, .pixels = 32, .classes = 5}), 5, *cuda, kSmall);
}

TEST(CudaModels, recomputed_norms_change_no_bit) {
  auto cuda = gpu();
  testing::expect_the_same_bits_of_cheap_layers(*cuda);
  testing::expect_less_memory_recomputed(
      "resnet18", models::resnet18({.batch = 2, .pixels = 32, .classes = 5, .width = 4}), 5, *cuda, 0.8);
}

TEST(CudaContract, numerics_name_the_gpu_and_each_library) {
  auto cuda = gpu();
  EXPECT_THAT(
      cuda->numerics(),
      ::testing::MatchesRegex(
          "cuda/float32/.+/sm-[0-9]+/driver-[0-9.]+/runtime-[0-9.]+/cublaslt-[0-9]+/cudnn-[0-9]+/kernels-[0-9]+"));
}

TEST(CudaContract, an_index_out_of_range_ends_a_wait_with_its_layer_and_row) {
  auto cuda = gpu();
  const core::Graph graph =
      models::char_transformer({.batch = 2, .vocabulary = 13, .context = 8, .layers = 1, .width = 16, .heads = 2});
  Bench bench(graph, *cuda, 13);
  const auto inputs = graph.with_role(core::Role::kInput);
  for (std::int32_t wrong : {13, 1001, -1, std::numeric_limits<std::int32_t>::min()}) {
    for (size_t i = 0; i < 2; ++i) {
      auto* at = static_cast<std::byte*>(bench.program().data(inputs[i])) + 9 * sizeof wrong;
      std::int32_t right = 0;
      cuda->read(&right, at, sizeof right);
      ASSERT_TRUE(cuda->wait(cuda->mark()).ok());
      cuda->write(at, &wrong, sizeof wrong);
      ASSERT_TRUE(bench.program().forward(bench.context, bench.abort).ok());
      ASSERT_TRUE(bench.program().backward(bench.context, bench.abort).ok());
      const Status waited = cuda->wait(cuda->mark());
      ASSERT_FALSE(waited.ok());
      EXPECT_EQ(waited.error().message, "layer '" + std::string(i == 0 ? "embedding" : "loss") + "': the index " +
                                            std::to_string(wrong) + " of row 9 is not in [0, 13)");
      EXPECT_EQ(waited.error().code, ErrorCode::kCorrupt);
      EXPECT_TRUE(cuda->wait(cuda->mark()).ok()) << "the error is returned once";
      cuda->write(at, &right, sizeof right);
      EXPECT_TRUE(std::isfinite(bench.loss()));
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer::layers_test
