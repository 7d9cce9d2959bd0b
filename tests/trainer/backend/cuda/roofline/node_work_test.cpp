// The work of single layers, computed by hand. A number has 4 bytes, in bfloat16 2.
#include "tests/trainer/backend/cuda/roofline/node_work.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/trainer/backend/cuda/roofline/fused_work.h"
#include "tests/trainer/backend/cuda/roofline/node_bytes.h"
#include "trainer/backend/cuda/copies.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/registry.h"

namespace lockstep::trainer::testing {
namespace {

namespace ops = core::ops;
using backend::Precision;
using core::GraphBuilder;
using core::TensorId;

constexpr auto kFloat32 = Precision::kFloat32;
constexpr auto kBfloat16 = Precision::kBfloat16;

// A line for each piece of work of the layer: its kind, result, products and bytes.
std::string lines(const core::Graph& graph, const std::vector<std::vector<Work>>& works, const std::string& layer) {
  std::string text;
  for (size_t i = 0; i < works.size(); ++i) {
    if (graph.nodes[i].name != layer) continue;
    for (const Work& work : works[i]) {
      const char* const results[] = {"y", "dx", "dw"};
      text += fmt::format("{} {} {} {}{}\n", work.kind, results[static_cast<size_t>(work.pass)], work.flops, work.bytes,
                          work.tensor_cores ? " tensor cores" : "");
    }
  }
  return text;
}
std::string plain(const core::Graph& graph, Precision precision, const std::string& layer) {
  return lines(graph, works_of_nodes(graph, precision), layer);
}
std::string fused(const core::Graph& graph, Precision precision, const std::string& layer) {
  return lines(graph, fused_works_of_nodes(graph, precision), layer);
}

// 2 images of 8 x 8 pixels with 4 channels go through the convolution "first", which gives them a gradient: 512
// numbers. The layers of `middle` follow.
template <typename Middle>
core::Graph of_images(const Middle& middle) {
  GraphBuilder build(2);
  const TensorId images = build.real_input("images", {2, 8, 8, 4}), classes = build.index_input("classes", {2});
  const TensorId x = middle(build, ops::conv2d(build, "first", images, 4, {}));
  const TensorId scores = ops::linear(build, "scores", ops::global_average_pool(build, "pool", x), 3);
  return build.finish(scores, ops::softmax_cross_entropy(build, "loss", scores, classes));
}

// 8 samples of 16 numbers go through the linear layers "first" (16), "middle" (32) and "scores" (3).
core::Graph of_vectors() {
  GraphBuilder build(8);
  const TensorId vectors = build.real_input("vectors", {8, 16}), classes = build.index_input("classes", {8});
  const TensorId x = ops::linear(build, "middle", ops::linear(build, "first", vectors, 16), 32);
  const TensorId scores = ops::linear(build, "scores", x, 3);
  return build.finish(scores, ops::softmax_cross_entropy(build, "loss", scores, classes));
}

// x has 512 numbers, y 2048, and the weight 16 * 3 * 3 * 4 = 576. That makes 2 * 2048 * 36 products and sums.
TEST(NodeWork, of_a_convolution) {
  const core::Graph graph = of_images(
      [](GraphBuilder& build, TensorId x) { return ops::conv2d(build, "conv", x, 16, {.kernel = 3, .padding = 1}); });
  EXPECT_EQ(plain(graph, kFloat32, "conv"),
            "Conv2d y 147456 12544\n"   // 4 (512 + 576 + 2048)
            "Conv2d dw 147456 14848\n"  // 4 (512 + 2048 + 2 * 576): added
            "Conv2d dx 147456 12544\n");
  EXPECT_EQ(plain(graph, kBfloat16, "conv"),
            "Conv2d y 147456 6272 tensor cores\n"
            "Conv2d dw 147456 6272 tensor cores\n"
            "Conv2d dx 147456 6272 tensor cores\n"
            "copies y 0 3456\n"     // (4 + 2) 576
            "copies dw 0 5760\n");  // (2 + 4 + 4) 576
}

TEST(NodeWork, of_the_first_convolution_has_no_gradient_of_images) {
  const core::Graph graph = of_images([](GraphBuilder&, TensorId x) { return x; });
  EXPECT_EQ(plain(graph, kBfloat16, "first"),
            "Conv2d y 4096 2080 tensor cores\n"  // 2 (512 + 16 + 512)
            "Conv2d dw 4096 2080 tensor cores\n"
            "copies y 0 3168\n"  // (4 + 2) (512 + 16)
            "copies dw 0 160\n");
}

// y has 2 * 4 * 4 * 4 = 128 numbers, and as many of x are read.
TEST(NodeWork, of_a_convolution_that_skips_pixels) {
  const core::Graph graph =
      of_images([](GraphBuilder& build, TensorId x) { return ops::conv2d(build, "conv", x, 4, {.stride = 2}); });
  EXPECT_EQ(plain(graph, kFloat32, "conv"),
            "Conv2d y 1024 1088\n"     // 4 (128 + 16 + 128)
            "Conv2d dw 1024 1152\n"    // 4 (128 + 128 + 2 * 16)
            "Conv2d dx 1024 2624\n");  // 4 (128 + 16 + 512)
}

// The weight has 36 numbers, which are transposed. The 128 places are one chunk, with a sum for each weight.
TEST(NodeWork, of_a_depthwise_convolution) {
  const core::Graph graph = of_images([](GraphBuilder& build, TensorId x) {
    return ops::conv2d(build, "conv", x, 4, {.kernel = 3, .padding = 1, .groups = 4});
  });
  EXPECT_EQ(plain(graph, kBfloat16, "conv"),
            "Conv2d y 9216 2480\n"   // 2 (512 + 512) + 4 * 3 * 36
            "Conv2d dw 9216 2624\n"  // 2 (512 + 512) + 4 (2 + 2) 36
            "Conv2d dx 9216 2480\n");
}

// x has 128 numbers, the weight 512, the bias 32 and y 256.
TEST(NodeWork, of_a_linear_layer) {
  EXPECT_EQ(plain(of_vectors(), kFloat32, "middle"),
            "Linear y 8192 3712\n"
            "Linear dw 8192 3584\n"  // 4 (128 + 256 + 512)
            "Linear dw 0 1536\n"     // 4 (256 + 2 * 32 + 2 * 32): the last are sums of rows
            "Linear dx 8192 3584\n");
  EXPECT_EQ(plain(of_vectors(), kBfloat16, "middle"),
            "Linear y 8192 1856 tensor cores\n"
            "Linear dw 8192 2816 tensor cores\n"  // 2 (128 + 256) + 4 * 512
            "Linear dw 0 1024\n"
            "Linear dx 8192 1792 tensor cores\n"
            "copies y 0 3264\n");  // (4 + 2) (512 + 32)
}

// The scores (24 numbers) are float32, and so is the bias (3) beside the weight (96). Probabilities are float32; a
// sample's loss is a float64 before it is a float32.
TEST(NodeWork, of_scores_and_their_loss) {
  EXPECT_EQ(plain(of_vectors(), kBfloat16, "scores"),
            "Linear y 1536 812 tensor cores\n"   // 2 (256 + 96) + 4 (3 + 24)
            "Linear dw 1536 944 tensor cores\n"  // 2 (256 + 24) + 4 * 96
            "Linear dw 0 96\n"                   // 2 * 24 + 4 (2 + 2) 3
            "Linear dx 1536 752 tensor cores\n"
            "copies y 0 576\n");
  EXPECT_EQ(plain(of_vectors(), kBfloat16, "loss"),
            "SoftmaxCrossEntropy y 0 384\n"     // 4 (24 + 8 + 8 + 24) + 2 * 8 * 8
            "SoftmaxCrossEntropy dx 0 176\n");  // 4 (8 + 24) + 2 * 24
}

// x and y have 512 numbers. A channel has two weights, two kept numbers, and scratch of two float64 and two float32.
TEST(NodeWork, of_a_batch_norm) {
  const core::Graph graph =
      of_images([](GraphBuilder& build, TensorId x) { return ops::batch_norm(build, "norm", x); });
  EXPECT_EQ(plain(graph, kFloat32, "norm"),
            "BatchNorm y 0 6400\n"     // 4 (2 + 1) 512 + 4 (8 + 8 + 48)
            "BatchNorm dw 0 4384\n"    // 4 (1 + 1) 512 + 4 (8 + 16 + 48)
            "BatchNorm dx 0 6192\n");  // 4 (1 + 1 + 1) 512 + 4 (8 + 4)
  EXPECT_EQ(plain(graph, kBfloat16, "norm"),
            "BatchNorm y 0 3328\n"
            "BatchNorm dw 0 2336\n"
            "BatchNorm dx 0 3120\n");
}

TEST(NodeWork, of_a_residual_sum_whose_terms_share_a_gradient) {
  const core::Graph graph =
      of_images([](GraphBuilder& build, TensorId x) { return ops::add(build, "sum", x, ops::relu(build, "relu", x)); });
  EXPECT_EQ(plain(graph, kFloat32, "sum"), "Add y 0 6144\nAdd dx 0 4096\nAdd dx 0 4096\n");
  EXPECT_EQ(plain(graph, kFloat32, "relu"), "Relu y 0 4096\nRelu dx 0 8192\n") << "adds to what the sum wrote";
}

// 2 samples of 3 positions, 1 head of 4: qkv has 72 numbers, y 24, the probabilities 18.
TEST(NodeWork, of_attention) {
  const core::Graph graph =
      models::char_transformer({.batch = 2, .vocabulary = 5, .context = 3, .layers = 1, .width = 4, .heads = 1});
  EXPECT_EQ(plain(graph, kFloat32, "block.0.attention"),
            "CausalAttention y 192 456\n"     // 4 (72 + 24 + 18)
            "CausalAttention dx 384 912\n");  // 4 (72 + 2 * 24 + 18 + 18 + 72)
}

// The norm's x, the other term and y have 512 numbers each.
TEST(NodeWork, of_a_batch_norm_with_sum_and_relu) {
  const core::Graph graph = of_images([](GraphBuilder& build, TensorId x) {
    const TensorId normal = ops::batch_norm(build, "norm", ops::conv2d(build, "second", x, 4, {}));
    return ops::relu(build, "relu", ops::add(build, "sum", normal, x));
  });
  EXPECT_EQ(plain(graph, kFloat32, "norm"),
            "BatchNorm y 0 8448\n"     // 4 (2 + 1 + 1) 512 + 4 (8 + 8 + 48)
            "BatchNorm dw 0 8480\n"    // 4 (1 + 1 + 1 + 1) 512 + 4 (8 + 16 + 48): it writes the other's gradient
            "BatchNorm dx 0 6192\n");  // 4 (1 + 1 + 1) 512 + 4 (8 + 4)
  EXPECT_EQ(plain(graph, kFloat32, "sum") + plain(graph, kFloat32, "relu"), "");
}

TEST(NodeWork, of_a_batch_norm_that_adds_to_the_gradient_of_the_sums_other_term) {
  const core::Graph graph = of_images([](GraphBuilder& build, TensorId x) {
    const TensorId normal = ops::batch_norm(build, "norm", ops::conv2d(build, "second", x, 4, {}));
    const TensorId y = ops::relu(build, "relu", ops::add(build, "sum", normal, x));
    return ops::add(build, "again", y, x);
  });
  EXPECT_EQ(plain(graph, kFloat32, "norm"),
            "BatchNorm y 0 8448\n"
            "BatchNorm dw 0 10528\n"   // 4 (1 + 1 + 1 + 2) 512 + 4 (8 + 16 + 48)
            "BatchNorm dx 0 8240\n");  // 4 (1 + 1 + 1 + 1) 512 + 4 (8 + 4)
}

TEST(NodeWork, of_a_relu_whose_input_others_read) {
  const core::Graph graph = of_images([](GraphBuilder& build, TensorId x) {
    const TensorId norm = ops::batch_norm(build, "norm", x);
    return ops::add(build, "sum", norm, ops::relu(build, "relu", norm));
  });
  EXPECT_EQ(plain(graph, kFloat32, "relu"), "Relu y 0 4096\nRelu dx 0 8192\n");
  EXPECT_EQ(plain(graph, kFloat32, "norm").substr(0, 18), "BatchNorm y 0 6400");
}

TEST(FusedWork, of_a_convolution_with_bias_and_relu) {
  const core::Graph graph = of_images([](GraphBuilder& build, TensorId x) {
    return ops::relu(build, "relu", ops::conv2d(build, "conv", x, 4, {.bias = true}));
  });
  EXPECT_EQ(plain(graph, kFloat32, "conv").substr(0, 33), "Conv2d y 4096 4160\nConv2d y 0 411");
  EXPECT_EQ(fused(graph, kFloat32, "conv").substr(0, 28), "Conv2d y 4096 4176\nConv2d dw");  // 4 (512 + 16 + 4 + 512)
  EXPECT_EQ(fused(graph, kFloat32, "relu"), "Relu dx 0 6144\n");
}

TEST(NodeWork, counts_the_products_that_core_counts) {
  for (const models::Model& model : models::all_models()) {
    if (model.data != models::Model::Data::kImages) continue;
    const core::Graph graph = model.graph(models::settle(model, {}).value(), {}, 2);
    double flops = 0;
    for (const std::vector<Work>& works : works_of_nodes(graph, kBfloat16)) {
      for (const Work& work : works) flops += work.flops;
    }
    const core::Flops expected = core::flops_of(graph);
    EXPECT_DOUBLE_EQ(flops, expected.forward + expected.backward) << model.name;
  }
}

size_t sum(const std::vector<size_t>& blocks) {
  size_t all = 0;
  for (const size_t block : blocks) all += block;
  return all;
}

// The copies that this room counts take the memory that the backend plans for them: half a float for each number.
TEST(NodeWork, counts_the_copies_that_the_backend_makes) {
  const std::vector<models::Model>& all = models::all_models();
  size_t copies = 0;
  for (const models::Model& model : all) {
    if (model.data != models::Model::Data::kImages) continue;
    const core::Graph graph = model.graph(models::settle(model, {}).value(), {}, 2);
    for (const core::Node& node : graph.nodes) {
      const auto needs = std::visit(
          [&](const auto& op) { return backend::cuda::needs_of(op, backend::dimensions_of(graph, node)); }, node.op);
      const auto with = backend::cuda::with_copies(graph, node, needs);
      const NodeBytes bytes(graph, node, kBfloat16, std::vector<bool>(node.inputs.size()));
      EXPECT_NEAR(static_cast<double>(sum(with.keeps) - sum(needs.keeps)), bytes.copied_forward() / 2, 1) << node.name;
      EXPECT_NEAR(static_cast<double>(with.backward_scratch - needs.backward_scratch), bytes.copied_backward() / 2, 16)
          << node.name;
      copies += with.keeps.size() - needs.keeps.size();
    }
  }
  EXPECT_GT(copies, 100U);
}

}  // namespace
}  // namespace lockstep::trainer::testing
