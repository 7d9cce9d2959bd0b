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
      : graph_(graph),
        precision_(precision),
        adds_(additions_of(graph)),
        works_(works_of_nodes(graph, precision)),
        taken_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (std::holds_alternative<ops::BatchNorm>(graph.nodes[i].op)) fuse_norm(i);
      const auto* const convolution = std::get_if<ops::Conv2d>(&graph.nodes[i].op);
      if (convolution != nullptr && convolution->bias) fuse_bias(i);
    }
  }

  std::vector<std::vector<Work>> take() { return std::move(works_); }

 private:
  NodeBytes bytes_of(size_t node) const { return {graph_, graph_.nodes[node], precision_, adds_[node]}; }

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

  void take_over(size_t node) {
    taken_[node] = true;
    works_[node].clear();
  }

  // The statistics read the input, and the result reads it again with the other term of the sum. In the backward pass
  // each of two kernels reads input and gradient. The sign before the ReLU follows from the input; after a sum it
  // takes the output.
  void fuse_norm(size_t norm) {
    const size_t sum = follower<ops::Add>(norm), last = follower<ops::Relu, ops::Relu6>(sum);
    const bool sums = sum != norm, bends = last != sum;
    if (sums) take_over(sum);
    if (bends) take_over(last);
    const NodeBytes of = bytes_of(norm), end = bytes_of(last);
    double other = 0, other_gradient = 0;
    if (sums) {
      const NodeBytes terms = bytes_of(sum);
      const size_t i = graph_.nodes[sum].inputs[0] == graph_.nodes[norm].output ? 1 : 0;
      other = terms.x(i);
      other_gradient = terms.dx(i);
    }
    const double sign = sums && bends ? end.y() : 0, read = of.x() + end.dy() + sign + of.kept();
    for (Work& work : works_[norm]) {
      if (work.pass == Pass::kForward) {
        work.bytes = 2 * of.x() + other + of.weights() + end.y() + of.kept() + 2 * of.forward_scratch();
      } else if (work.pass == Pass::kWeightGradient) {
        work.bytes = read + of.dweights() + 2 * of.backward_scratch();
      } else {
        work.bytes = read + of.weight() + of.dx() + other_gradient;
      }
    }
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
  const std::vector<std::vector<bool>> adds_;
  std::vector<std::vector<Work>> works_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<std::vector<Work>> fused_works_of_nodes(const core::Graph& graph, backend::Precision precision) {
  return Fusion(graph, precision).take();
}

}  // namespace lockstep::trainer::testing
