#include "trainer/core/graph.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
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

Flops flops_of(const Graph& graph) {
  Flops sum;
  for (const Node& node : graph.nodes) {
    const Tensor& in = graph.tensor(node.inputs[0]);
    const double forward = std::visit(
        [&](const auto& op) {
          if constexpr (requires { op.flops(in.shape, in.shape, graph.batch); }) {
            return op.flops(in.shape, graph.tensor(node.output).shape, graph.batch);
          } else {
            return 0.0;
          }
        },
        node.op);
    sum.forward += forward;
    if (!graph.tensor(node.output).has_gradient) continue;
    sum.backward += in.has_gradient ? 2 * forward : forward;  // the other operand is a weight, or the input as well
  }
  return sum;
}

std::vector<TensorId> Graph::with_role(Role role) const {
  std::vector<TensorId> ids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role == role) ids.push_back(static_cast<TensorId>(i));
  }
  return ids;
}

TensorId Graph::output(std::string_view name) const {
  auto at =
      std::find_if(outputs.begin(), outputs.end(), [&](const NamedOutput& output) { return output.name == name; });
  GraphBuilder::require(at != outputs.end(), std::string(name), "the graph has no output of this name");
  return at->tensor;
}

double Graph::weight_of(TensorId loss) const {
  auto at = std::find_if(losses.begin(), losses.end(), [&](const WeightedLoss& one) { return one.tensor == loss; });
  return at == losses.end() ? 0 : at->weight;
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
  auto& tensors = graph_->tensors;
  auto shared = std::find_if(tensors.begin(), tensors.end(),
                             [&](const Tensor& t) { return t.role == Role::kParameter && t.name == name; });
  if (shared != tensors.end()) {
    require(shared->shape == shape, name, "layers that share a parameter must give it one shape");
    require(shared->fill == fill && shared->deviation == deviation, name,
            "layers that share a parameter must give it one initial value");
    shared->decay = shared->decay || decay;
    return static_cast<TensorId>(shared - tensors.begin());
  }
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

// Sources, checkpoints and programs find inputs, parameters and statistics by name; the name of a node keys its random
// numbers.
void GraphBuilder::require_unique_names() const {
  std::set<std::string> tensors, layers, outputs;
  for (const Tensor& tensor : graph_->tensors) {
    if (tensor.role == Role::kActivation) continue;
    require(tensors.insert(tensor.name).second, tensor.name, "another input, parameter or statistic has this name");
  }
  for (const Node& node : graph_->nodes) {
    require(layers.insert(node.name).second, node.name, "another layer has this name");
  }
  for (const NamedOutput& output : graph_->outputs) {
    require(outputs.insert(output.name).second, output.name, "another output has this name");
  }
}

void GraphBuilder::require_losses() const {
  require(!graph_->losses.empty(), "loss", "a graph needs at least one loss");
  std::set<TensorId> seen;
  for (const WeightedLoss& loss : graph_->losses) {
    const std::string& name = tensor(loss.tensor).name;
    require(shape(loss.tensor) == Shape{graph_->batch}, name, "the loss must have one value per sample");
    const auto& nodes = graph_->nodes;
    auto writer =
        std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) { return node.output == loss.tensor; });
    require(writer != nodes.end() && is_loss(writer->op), name,
            "the loss must be the output of softmax_cross_entropy or mean_squared_error");
    require(std::isfinite(loss.weight) && loss.weight != 0, name, "the weight of a loss must be finite and not 0");
    require(seen.insert(loss.tensor).second, name, "the loss is given twice");
  }
}

// A tensor that no loss reads has no gradient: nothing would write it.
void GraphBuilder::prune_gradients() {
  std::vector<TensorId> reader(graph_->tensors.size(), -1);  // a loss that depends on it
  for (size_t k = graph_->nodes.size(); k-- > 0;) {
    const Node& node = graph_->nodes[k];
    TensorId loss = reader[static_cast<size_t>(node.output)];
    require(loss < 0 || !is_loss(node.op), node.name,
            (loss < 0 ? std::string() : "the loss '" + tensor(loss).name + "' depends on this loss"));
    if (graph_->weight_of(node.output) != 0) reader[static_cast<size_t>(node.output)] = loss = node.output;
    if (loss < 0) continue;
    for (const auto* read : {&node.inputs, &node.parameters}) {
      for (TensorId id : *read) reader[static_cast<size_t>(id)] = loss;
    }
  }
  for (size_t i = 0; i < graph_->tensors.size(); ++i) {
    graph_->tensors[i].has_gradient = graph_->tensors[i].has_gradient && reader[i] >= 0;
  }
}

Graph GraphBuilder::finish(std::vector<NamedOutput> outputs, std::vector<WeightedLoss> losses) {
  graph_->outputs = std::move(outputs);
  graph_->losses = std::move(losses);
  require_unique_names();
  require_losses();
  prune_gradients();
  return std::exchange(*graph_, {});
}

Graph GraphBuilder::finish(TensorId output, TensorId loss) {
  return finish({{tensor(output).name, output}}, {{loss, 1}});
}

}  // namespace lockstep::trainer::core
