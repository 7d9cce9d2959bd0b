#include "tests/trainer/backend/cuda/plans/model_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <variant>

#include "trainer/backend/cuda/kernel.h"
#include "trainer/backend/dimensions.h"
#include "trainer/models/registry.h"

namespace lockstep::trainer::testing {

namespace {

using cuda::ConvolutionPass;
using cuda::ConvolutionShape;

cuda::DnnDataType type_of(backend::Precision precision) {
  return precision == backend::Precision::kBfloat16 ? cuda::DnnDataType::kBfloat16 : cuda::DnnDataType::kFloat32;
}

ConvolutionShape shape_of(const core::ops::Conv2d& op, const backend::Dimensions& d, backend::Precision precision) {
  const auto size = [](size_t value) { return static_cast<std::int64_t>(value); };
  return {.samples = size(d.samples),
          .height = size(d.height),
          .width = size(d.width),
          .channels = size(d.in),
          .out_height = size(d.out_height),
          .out_width = size(d.out_width),
          .outputs = size(d.out),
          .kernel = op.kernel,
          .stride = op.stride,
          .padding = op.padding,
          .groups = op.groups,
          .type = type_of(precision),
          .tf32 = precision == backend::Precision::kTf32};
}

// Whether a later node reads the tensor. The backward pass goes from the last node to the first, so that node has
// written the tensor's gradient before.
bool later_node_reads(const core::Graph& graph, size_t node, core::TensorId tensor) {
  return std::any_of(
      graph.nodes.begin() + static_cast<std::ptrdiff_t>(node) + 1, graph.nodes.end(),
      [tensor](const core::Node& later) { return std::ranges::find(later.inputs, tensor) != later.inputs.end(); });
}

auto key_of(const ModelPass& p) {
  const ConvolutionShape& s = p.shape;
  return std::make_tuple(s.height, s.width, s.channels, s.outputs, s.kernel, s.stride, s.padding, s.groups, s.type,
                         s.tf32, p.pass, p.adds);
}

const char* name_of(const ModelPass& p) {
  switch (p.pass) {
    case ConvolutionPass::kForward:
      return "y =";
    case ConvolutionPass::kInputGradient:
      return p.adds ? "dx +=" : "dx =";
    case ConvolutionPass::kWeightGradient:
      return p.adds ? "dw +=" : "dw =";
  }
  return "";
}

void add_passes(std::vector<ModelPass>& passes, backend::Precision precision) {
  std::set<decltype(key_of(ModelPass{}))> seen;
  for (const models::Model& model : models::all_models()) {
    if (model.data != models::Model::Data::kImages) continue;
    const core::Graph graph = model.graph(models::settle(model, {}).value(), {}, kPlannedSamples);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const core::Node& node = graph.nodes[i];
      const auto* const op = std::get_if<core::ops::Conv2d>(&node.op);
      if (op == nullptr) continue;
      const backend::Dimensions d = backend::dimensions_of(graph, node);
      if (!backend::cuda::needs_dnn(*op, d)) continue;
      ModelPass pass{.model = model.name, .layer = node.name, .shape = shape_of(*op, d, precision)};
      const auto add = [&](ConvolutionPass which, bool adds) {
        pass.pass = which;
        pass.adds = adds;
        if (seen.insert(key_of(pass)).second) passes.push_back(pass);
      };
      add(ConvolutionPass::kForward, false);
      add(ConvolutionPass::kWeightGradient, type_of(precision) == cuda::DnnDataType::kFloat32);
      const core::TensorId input = node.inputs.front();
      if (graph.tensor(input).has_gradient) {
        add(ConvolutionPass::kInputGradient, later_node_reads(graph, i, input));
      }
    }
  }
}

}  // namespace

std::vector<ModelPass> passes_of_models() {
  std::vector<ModelPass> passes;
  using backend::Precision;
  for (const auto precision : {Precision::kFloat32, Precision::kTf32, Precision::kBfloat16}) {
    add_passes(passes, precision);
  }
  return passes;
}

std::string row_of(const ModelPass& pass) {
  const ConvolutionShape& s = pass.shape;
  return fmt::format("{:<14} {:<21} {:>12} {:>14} {:>2} {:>2}  {} {:<5}", pass.model, pass.layer,
                     fmt::format("{}x{}x{}", s.height, s.width, s.channels),
                     fmt::format("{}x{}x{}x{}", s.outputs, s.kernel, s.kernel, s.channels / s.groups), s.stride,
                     s.padding,
                     s.type == cuda::DnnDataType::kBfloat16 ? "bf16"
                     : s.tf32                               ? "tf32"
                                                            : "fp32",
                     name_of(pass));
}

}  // namespace lockstep::trainer::testing
