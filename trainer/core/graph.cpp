#include "trainer/core/graph.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace lockstep::trainer::core {

bool is_loss(const Op& op) {
  return std::visit(
      [](const auto& kind) {
        return requires {
          kind.kIsLoss;
        };
      },
      op);
}

std::vector<TensorId> Graph::with_role(Role role) const {
  std::vector<TensorId> ids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role == role) ids.push_back(static_cast<TensorId>(i));
  }
  return ids;
}

GraphBuilder::GraphBuilder(std::int64_t batch) : graph_(std::make_unique<Graph>()) {
  graph_->batch = batch;
}

GraphBuilder::~GraphBuilder() = default;
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;

const Tensor& GraphBuilder::tensor(TensorId id) const {
  return graph_->tensor(id);
}

std::int64_t GraphBuilder::batch() const {
  return graph_->batch;
}

void GraphBuilder::require(bool holds, const std::string& layer, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "model: layer '%s': %s\n", layer.c_str(), what.c_str());
  std::abort();
}

TensorId GraphBuilder::append(Tensor tensor) {
  require(count_of(tensor.shape) > 0, tensor.name, "a tensor must have at least one element");
  graph_->tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(graph_->tensors.size()) - 1;
}

TensorId GraphBuilder::append(Node node, Shape output) {
  bool learns = !node.parameters.empty();
  for (TensorId input : node.inputs) learns = learns || tensor(input).has_gradient;
  node.output = append(Tensor{.name = node.name, .shape = std::move(output), .has_gradient = learns});
  TensorId written = node.output;
  graph_->nodes.push_back(std::move(node));
  return written;
}

TensorId GraphBuilder::real_input(std::string name, Shape shape) {
  return append(Tensor{.name = std::move(name), .shape = std::move(shape), .role = Role::kInput});
}

TensorId GraphBuilder::index_input(std::string name, Shape shape) {
  return append(
      Tensor{.name = std::move(name), .shape = std::move(shape), .role = Role::kInput, .number = Number::kIndex});
}

TensorId GraphBuilder::parameter(std::string name, Shape shape, Fill fill, double deviation, bool decay) {
  return append(Tensor{.name = std::move(name),
                       .shape = std::move(shape),
                       .role = Role::kParameter,
                       .fill = fill,
                       .deviation = deviation,
                       .decay = decay,
                       .has_gradient = true});
}

TensorId GraphBuilder::statistic(const std::string& name, Shape shape, Fill fill, double weight) {
  return append(
      Tensor{.name = name, .shape = std::move(shape), .role = Role::kStatistic, .fill = fill, .weight = weight});
}

// A tensor that no loss reads has no gradient: nothing would write it.
void GraphBuilder::prune_gradients(TensorId loss) {
  std::vector<bool> reaches_loss(graph_->tensors.size(), false);
  reaches_loss[static_cast<size_t>(loss)] = true;
  for (size_t k = graph_->nodes.size(); k-- > 0;) {
    const Node& node = graph_->nodes[k];
    if (!reaches_loss[static_cast<size_t>(node.output)]) continue;
    require(node.output == loss || !is_loss(node.op), node.name,
            "the loss '" + tensor(loss).name + "' depends on this loss");
    for (const auto* read : {&node.inputs, &node.parameters}) {
      for (TensorId id : *read) reaches_loss[static_cast<size_t>(id)] = true;
    }
  }
  for (size_t i = 0; i < graph_->tensors.size(); ++i) {
    graph_->tensors[i].has_gradient = graph_->tensors[i].has_gradient && reaches_loss[i];
  }
}

Graph GraphBuilder::finish(TensorId output, TensorId loss) {
  require(shape(loss) == Shape{graph_->batch}, tensor(loss).name, "the loss must have one value per sample");
  const auto& nodes = graph_->nodes;
  auto writer = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) { return node.output == loss; });
  require(writer != nodes.end() && is_loss(writer->op), tensor(loss).name,
          "the loss must be the output of softmax_cross_entropy or mean_squared_error");
  prune_gradients(loss);
  graph_->output = output;
  graph_->loss = loss;
  return std::exchange(*graph_, {});
}

}  // namespace lockstep::trainer::core
