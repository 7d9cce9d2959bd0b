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

size_t length_from(const core::Graph& graph, const Chains& chains, size_t i) {
  const std::vector<core::Node>& nodes = graph.nodes;
  if (is<ops::Relu>(nodes[i]) && chains.flows(i) && is<ops::MaxPool2d>(nodes[i + 1])) return 2;
  return is_over_images(dimensions_of(graph, nodes[i])) ? std::max<size_t>(1, chains.norm_block_from(i)) : 1;
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
    runs.push_back({.first = i, .count = length_from(graph, chains, i)});
  }
  return runs;
}

const core::Node& main_node(const core::Graph& graph, const Run& run) {
  const bool pools = run.count > 1 && is<ops::Relu>(graph.nodes[run.first]);
  return graph.nodes[pools ? run.first + 1 : run.first];
}

Needs needs_of(const core::Graph& graph, const Run& run, const Team& team) {
  const Dimensions d = dimensions_of(graph, main_node(graph, run));
  return with_run(graph, run, [&](const auto& op) { return needs_of(op, d, team); });
}

std::unique_ptr<Kernel> make_kernel(const Run& run, Site site) {
  const core::Graph& graph = site.at.graph;
  return with_run(graph, run, [&](const auto& op) { return make_kernel(op, std::move(site)); });
}

}  // namespace lockstep::trainer::backend::cpu
