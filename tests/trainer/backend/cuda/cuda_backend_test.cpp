#include "trainer/backend/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <variant>

#include "tests/trainer/backend/cuda/on_fake.h"
#include "tests/trainer/backend/image_layers.h"
#include "tests/trainer/backend/layers.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer::cuda_backend_test {
namespace {

using testing::fake_gpu;
using testing::LayerCase;

// Its context takes hundreds of MB of the GPU, so a graph without a convolution must not start it.
TEST(CudaBackend, without_cudnn_a_convolution_alone_is_refused_with_its_layers_name) {
  auto options = testing::on_fake();
  options.cudnn = "/nowhere/libcudnn.so";
  auto cuda = backend::make_cuda_backend(options).value();
  EXPECT_THAT(cuda->numerics(), ::testing::HasSubstr("/cudnn-none/"));
  EXPECT_TRUE(cuda->lower(models::mlp({}), true).ok());
  int refused = 0;
  for (const LayerCase& layer : testing::image_layer_cases(5, 4)) {
    const core::Graph graph = layer.graph();
    const bool has_all = std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const core::Node& node) {
      const auto* convolution = std::get_if<core::ops::Conv2d>(&node.op);
      return convolution != nullptr && convolution->groups != 4;
    });
    const auto lowered = cuda->lower(graph, true);
    ASSERT_EQ(lowered.ok(), has_all) << layer.name;
    if (lowered) continue;
    ++refused;
    EXPECT_EQ(lowered.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(lowered.error().message, ::testing::MatchesRegex("layer '.*': .*cuDNN.*--cudnn-library.*"));
  }
  EXPECT_GT(refused, 3);
}

TEST(CudaBackend, cudnn_of_another_cuda_than_cublaslt_is_refused) {
  ::setenv("FAKE_CUDNN_CUDART", "12080", 1);
  auto cuda = fake_gpu();
  ::unsetenv("FAKE_CUDNN_CUDART");
  const core::Graph graph = testing::image_layer_cases(5, 4).front().graph();
  const auto lowered = cuda->lower(graph, true);
  ASSERT_FALSE(lowered.ok());
  EXPECT_EQ(lowered.error().message,
            "layer 'layer': cuDNN is built for CUDA 12, and cuBLASLt is of CUDA 13; give the paths of two that belong "
            "together with --cudnn-library and --cublaslt-library");
}

TEST(MakeCudaBackend, a_missing_library_is_one_sentence) {
  auto options = testing::on_fake();
  options.cublaslt = "/nowhere/libcublasLt.so";
  EXPECT_EQ(backend::make_cuda_backend(options).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(backend::make_cuda_backend(options).error().message, ::testing::HasSubstr("--cublaslt-library"));
  options = testing::on_fake();
  options.cudart = "/nowhere/libcudart.so";
  EXPECT_THAT(backend::make_cuda_backend(options).error().message, ::testing::HasSubstr("--cudart-library"));
}

}  // namespace
}  // namespace lockstep::trainer::cuda_backend_test
