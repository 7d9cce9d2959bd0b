#include "trainer/backend/norm_block.h"

#include <algorithm>
#include <variant>

namespace lockstep::trainer::backend {

namespace {

namespace ops = core::ops;

template <typename Op>
bool is(const core::Node& node) {
  return std::holds_alternative<Op>(node.op);
}

}  // namespace

Chains::Chains(const core::Graph& graph) : graph_(graph), readers_(graph.tensors.size(), 0) {
  for (const core::Node& node : graph.nodes) {
    for (core::TensorId id : node.inputs) ++readers_[static_cast<size_t>(id)];
  }
  for (const core::NamedOutput& output : graph.outputs) ++readers_[static_cast<size_t>(output.tensor)];
}

bool Chains::flows(size_t i) const {
  if (i + 1 == graph_.nodes.size()) return false;
  const core::TensorId id = graph_.nodes[i].output;
  const std::vector<core::TensorId>& inputs = graph_.nodes[i + 1].inputs;
  return readers_[static_cast<size_t>(id)] == 1 && std::ranges::count(inputs, id) == 1;
}

size_t Chains::norm_block_from(size_t i) const {
  const std::vector<core::Node>& nodes = graph_.nodes;
  if (!is<ops::BatchNorm>(nodes[i])) return 0;
  size_t last = i;
  if (flows(last) && is<ops::Add>(nodes[last + 1]) &&
      std::ranges::count(nodes[last + 1].inputs, nodes[i].inputs[0]) == 0) {
    ++last;
  }
  if (flows(last) && (is<ops::Relu>(nodes[last + 1]) || is<ops::Relu6>(nodes[last + 1]))) ++last;
  return last - i + 1;
}

NormBlock norm_block_of(const core::Graph& graph, const Run& run) {
  NormBlock block{.norm = std::get<ops::BatchNorm>(graph.nodes[run.first].op)};
  for (size_t i = run.first + 1; i < run.first + run.count; ++i) {
    if (is<ops::Add>(graph.nodes[i])) block.adds = true;
    if (is<ops::Relu>(graph.nodes[i])) block.activation = Activation::kRelu;
    if (is<ops::Relu6>(graph.nodes[i])) block.activation = Activation::kRelu6;
  }
  return block;
}

}  // namespace lockstep::trainer::backend
