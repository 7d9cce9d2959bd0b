// Which nodes the CUDA backend computes in one step.
#include "trainer/backend/cuda/fusion.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/trainer/backend/cuda/on_fake.h"
#include "trainer/core/graph_builder.h"
#include "trainer/core/ops.h"
#include "trainer/models/registry.h"

namespace lockstep::trainer::backend::cuda::fusion_test {
namespace {

namespace ops = core::ops;
using core::GraphBuilder;
using core::TensorId;

// Images go through the convolutions "a" and "b"; what `middle` makes of their results goes through "head".
core::Graph between(const std::function<TensorId(GraphBuilder&, TensorId a, TensorId b)>& middle) {
  GraphBuilder build(2);
  const TensorId images = build.real_input("images", {2, 4, 4, 4}), classes = build.index_input("classes", {2});
  const TensorId a = ops::conv2d(build, "a", images, 4, {}), b = ops::conv2d(build, "b", images, 4, {});
  const TensorId pooled = ops::global_average_pool(build, "pool", middle(build, a, b));
  const TensorId scores = ops::linear(build, "head", pooled, 3);
  return build.finish(scores, ops::softmax_cross_entropy(build, "loss", scores, classes));
}

// The runs of more than one node, by the nodes' names.
std::string together(const core::Graph& graph, bool rounds) {
  std::string text;
  for (const Run& run : runs_of(graph, rounds)) {
    if (run.count == 1) continue;
    for (size_t i = 0; i < run.count; ++i) text += graph.nodes[run.first + i].name + (i + 1 < run.count ? "+" : ";");
  }
  return text;
}

TEST(CudaFusion, takes_what_follows_a_batch_norm) {
  struct Case {
    std::function<TensorId(GraphBuilder&, TensorId, TensorId)> middle;
    const char* expected;
  };
  const Case cases[] = {
      {[](GraphBuilder& g, TensorId a, TensorId) { return ops::relu(g, "relu", ops::batch_norm(g, "norm", a)); },
       "norm+relu;"},
      {[](GraphBuilder& g, TensorId a, TensorId) { return ops::relu6(g, "relu6", ops::batch_norm(g, "norm", a)); },
       "norm+relu6;"},
      {[](GraphBuilder& g, TensorId a, TensorId b) { return ops::add(g, "sum", b, ops::batch_norm(g, "norm", a)); },
       "norm+sum;"},
      {[](GraphBuilder& g, TensorId a, TensorId b) {
         return ops::relu(g, "relu", ops::add(g, "sum", ops::batch_norm(g, "norm", a), b));
       },
       "norm+sum+relu;"},
      {[](GraphBuilder& g, TensorId a, TensorId) { return ops::batch_norm(g, "norm", a); }, ""},
      {[](GraphBuilder& g, TensorId a, TensorId) { return ops::gelu(g, "gelu", ops::batch_norm(g, "norm", a)); }, ""},
      {[](GraphBuilder& g, TensorId a, TensorId b) { return ops::relu(g, "relu", ops::add(g, "sum", a, b)); }, ""},
      // The input's gradient has one writer in a step.
      {[](GraphBuilder& g, TensorId a, TensorId) { return ops::add(g, "sum", a, ops::batch_norm(g, "norm", a)); }, ""},
      // Others read the norm as well.
      {[](GraphBuilder& g, TensorId a, TensorId) {
         const TensorId normal = ops::batch_norm(g, "norm", a);
         return ops::add(g, "sum", ops::relu(g, "relu", normal), normal);
       },
       ""},
      {[](GraphBuilder& g, TensorId a, TensorId) {
         const TensorId normal = ops::batch_norm(g, "norm", a);
         return ops::relu(g, "relu", ops::add(g, "sum", normal, normal));
       },
       ""},
  };
  for (const Case& each : cases) {
    const core::Graph graph = between(each.middle);
    EXPECT_EQ(together(graph, false), each.expected);
    EXPECT_EQ(together(graph, true), each.expected);
  }
}

TEST(CudaFusion, in_bfloat16_leaves_a_node_that_needs_copies_by_itself) {
  GraphBuilder build(2);
  const TensorId images = build.real_input("images", {2, 4, 4, 4});
  const TensorId a = ops::conv2d(build, "a", images, 4, {});
  const TensorId sum = ops::relu(build, "relu", ops::add(build, "sum", ops::batch_norm(build, "norm", a), images));
  const TensorId scores = ops::linear(build, "head", ops::global_average_pool(build, "pool", sum), 3);
  const core::Graph graph =
      build.finish(scores, ops::mean_squared_error(build, "loss", scores, build.real_input("target", {2, 3})));
  EXPECT_EQ(together(graph, false), "norm+sum+relu;");
  EXPECT_EQ(together(graph, true), "") << "the images are float32";
}

TEST(CudaFusion, leaves_no_relu_or_sum_of_a_resnet_alone) {
  const models::Model& model = *models::find_model("resnet50");
  const core::Graph graph = model.graph(models::settle(model, {}).value(), {}, 2);
  for (const auto precision : {Precision::kFloat32, Precision::kBfloat16}) {
    const auto backend = make_cuda_backend(testing::on_fake(precision)).value();
    const core::Lowered lowered = backend->lower(graph, true).value();
    size_t alone = 0;
    for (const core::Step& step : lowered.steps) {
      const core::Node& first = graph.nodes[step.nodes[0]];
      alone += std::holds_alternative<ops::Relu>(first.op) || std::holds_alternative<ops::Add>(first.op) ? 1 : 0;
      if (step.nodes.size() == 1) continue;
      for (size_t i = 0; i + 1 < step.nodes.size(); ++i) {
        EXPECT_EQ(lowered.value_bytes[static_cast<size_t>(graph.nodes[step.nodes[i]].output)], 0U) << first.name;
      }
    }
    EXPECT_EQ(alone, 0U);
  }
}

}  // namespace
}  // namespace lockstep::trainer::backend::cuda::fusion_test
