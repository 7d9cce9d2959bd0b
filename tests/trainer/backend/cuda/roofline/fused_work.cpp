#include "tests/trainer/backend/cuda/roofline/fused_work.h"

#include <algorithm>
#include <variant>

#include "tests/trainer/backend/cuda/roofline/node_bytes.h"

namespace lockstep::trainer::testing {

namespace {

namespace ops = core::ops;

// The ReLU or ReLU6 that alone reads the tensor, or the number of nodes.
size_t relu_after(const core::Graph& graph, core::TensorId tensor) {
  std::vector<size_t> readers;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (std::ranges::find(graph.nodes[i].inputs, tensor) != graph.nodes[i].inputs.end()) readers.push_back(i);
  }
  if (readers.size() != 1) return graph.nodes.size();
  const core::Op& op = graph.nodes[readers[0]].op;
  const bool is = std::holds_alternative<ops::Relu>(op) || std::holds_alternative<ops::Relu6>(op);
  return is ? readers[0] : graph.nodes.size();
}

}  // namespace

std::vector<std::vector<Work>> fused_works_of_nodes(const core::Graph& graph, backend::Precision precision) {
  std::vector<std::vector<Work>> works = works_of_nodes(graph, precision);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const core::Node& node = graph.nodes[i];
    const auto* const convolution = std::get_if<ops::Conv2d>(&node.op);
    if (convolution == nullptr || !convolution->bias) continue;
    const NodeBytes of(graph, node, precision, std::vector<bool>(node.inputs.size()));
    if (!of.of_dnn()) continue;
    // The first work is the convolution's, the second adds the bias.
    works[i][0].bytes += of.weight(1);
    works[i].erase(works[i].begin() + 1);
    const size_t relu = relu_after(graph, node.output);
    if (relu == graph.nodes.size()) continue;
    std::erase_if(works[relu], [](const Work& work) { return work.pass == Pass::kForward; });
  }
  return works;
}

}  // namespace lockstep::trainer::testing
