#include "trainer/backend/cpu/fusion.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "trainer/backend/cpu/norm_block.h"
#include "trainer/backend/cpu/relu_max_pool.h"

namespace lockstep::trainer::backend::cpu {

namespace {

namespace ops = core::ops;

template <typename Op>
bool is(const core::Node& node) {
  return std::holds_alternative<Op>(node.op);
}

bool is_activation(const core::Node& node) {
  return is<ops::Relu>(node) || is<ops::Relu6>(node);
}

// Finds out which nodes may be computed with the next one.
class Chains {
 public:
  explicit Chains(const core::Graph& graph) : graph_(graph), readers_(graph.tensors.size(), 0) {
    for (const core::Node& node : graph.nodes) {
      for (core::TensorId id : node.inputs) ++readers_[static_cast<size_t>(id)];
    }
    for (const core::NamedOutput& output : graph.outputs) ++readers_[static_cast<size_t>(output.tensor)];
  }

  // Whether only the node after `i` reads what node `i` writes, and that once.
  bool flows(size_t i) const {
    if (i + 1 == graph_.nodes.size()) return false;
    const core::TensorId id = graph_.nodes[i].output;
    const std::vector<core::TensorId>& inputs = graph_.nodes[i + 1].inputs;
    return readers_[static_cast<size_t>(id)] == 1 && std::count(inputs.begin(), inputs.end(), id) == 1;
  }

  size_t length_from(size_t i) const {
    const std::vector<core::Node>& nodes = graph_.nodes;
    const Dimensions d = dimensions_of(graph_, nodes[i]);
    if (is<ops::Relu>(nodes[i]) && flows(i) && is<ops::MaxPool2d>(nodes[i + 1])) return 2;
    if (!is<ops::BatchNorm>(nodes[i]) || !is_over_images(d)) return 1;
    size_t last = i;
    if (flows(last) && is<ops::Add>(nodes[last + 1]) && !reads(nodes[last + 1], nodes[i].inputs[0])) ++last;
    if (flows(last) && is_activation(nodes[last + 1])) ++last;
    return last - i + 1;
  }

 private:
  static bool reads(const core::Node& node, core::TensorId id) {
    return std::count(node.inputs.begin(), node.inputs.end(), id) > 0;
  }

  const core::Graph& graph_;
  std::vector<int> readers_;  // of each tensor
};

NormBlock norm_block_of(const core::Graph& graph, const Run& run) {
  NormBlock block{.norm = std::get<ops::BatchNorm>(graph.nodes[run.first].op)};
  for (size_t i = run.first + 1; i < run.first + run.count; ++i) {
    if (is<ops::Add>(graph.nodes[i])) block.adds = true;
    if (is<ops::Relu>(graph.nodes[i])) block.activation = Activation::kRelu;
    if (is<ops::Relu6>(graph.nodes[i])) block.activation = Activation::kRelu6;
  }
  return block;
}

// Calls body(what the run is).
template <typename Body>
auto with_run(const core::Graph& graph, const Run& run, const Body& body) {
  const core::Node& first = graph.nodes[run.first];
  if (run.count == 1) return std::visit(body, first.op);
  if (is<ops::Relu>(first)) return body(ReluMaxPool{std::get<ops::MaxPool2d>(graph.nodes[run.first + 1].op)});
  return body(norm_block_of(graph, run));
}

}  // namespace

std::vector<Run> runs_of(const core::Graph& graph) {
  const Chains chains(graph);
  std::vector<Run> runs;
  for (size_t i = 0; i < graph.nodes.size(); i += runs.back().count) {
    runs.push_back({.first = i, .count = chains.length_from(i)});
  }
  return runs;
}

const core::Node& main_node(const core::Graph& graph, const Run& run) {
  const bool pools = run.count > 1 && is<ops::Relu>(graph.nodes[run.first]);
  return graph.nodes[pools ? run.first + 1 : run.first];
}

Needs needs_of(const core::Graph& graph, const Run& run, size_t threads) {
  const Dimensions d = dimensions_of(graph, main_node(graph, run));
  return with_run(graph, run, [&](const auto& op) { return needs_of(op, d, threads); });
}

std::unique_ptr<Kernel> make_kernel(const Run& run, Site site) {
  const core::Graph& graph = site.at.graph;
  return with_run(graph, run, [&](const auto& op) { return make_kernel(op, std::move(site)); });
}

}  // namespace lockstep::trainer::backend::cpu
