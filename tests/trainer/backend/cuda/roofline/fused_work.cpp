#include "tests/trainer/backend/cuda/roofline/fused_work.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tests/trainer/backend/cuda/roofline/node_bytes.h"

namespace lockstep::trainer::testing {

namespace {

namespace ops = core::ops;

class Fusion {
 public:
  Fusion(const core::Graph& graph, backend::Precision precision)
      : graph_(graph), precision_(precision), works_(works_of_nodes(graph, precision)), taken_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const auto* const convolution = std::get_if<ops::Conv2d>(&graph.nodes[i].op);
      if (convolution != nullptr && convolution->bias) fuse_bias(i);
    }
  }

  std::vector<std::vector<Work>> take() { return std::move(works_); }

 private:
  NodeBytes bytes_of(size_t node) const {
    return {graph_, graph_.nodes[node], precision_, std::vector<bool>(graph_.nodes[node].inputs.size())};
  }

  // The node that alone reads what this one writes, if no other fused layer has it yet and its op is one of `Ops`. Else
  // the node itself.
  template <typename... Ops>
  size_t follower(size_t node) const {
    const core::TensorId output = graph_.nodes[node].output;
    std::vector<size_t> readers;
    for (size_t i = node + 1; i < graph_.nodes.size(); ++i) {
      if (std::ranges::find(graph_.nodes[i].inputs, output) != graph_.nodes[i].inputs.end()) readers.push_back(i);
    }
    if (readers.size() != 1 || taken_[readers[0]]) return node;
    return (std::holds_alternative<Ops>(graph_.nodes[readers[0]].op) || ...) ? readers[0] : node;
  }

  // The first work is the convolution's, the second adds the bias. A depthwise convolution has no second one.
  void fuse_bias(size_t convolution) {
    const NodeBytes of = bytes_of(convolution);
    if (!of.of_dnn()) return;
    std::vector<Work>& works = works_[convolution];
    works[0].bytes += of.weight(1);
    works.erase(works.begin() + 1);
    const size_t relu = follower<ops::Relu, ops::Relu6>(convolution);
    if (relu == convolution) return;
    taken_[relu] = true;
    std::erase_if(works_[relu], [](const Work& work) { return work.pass == Pass::kForward; });
  }

  const core::Graph& graph_;
  const backend::Precision precision_;
  std::vector<std::vector<Work>> works_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<std::vector<Work>> fused_works_of_nodes(const core::Graph& graph, backend::Precision precision) {
  return Fusion(graph, precision).take();
}

}  // namespace lockstep::trainer::testing
