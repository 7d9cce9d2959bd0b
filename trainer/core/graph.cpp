#include "trainer/core/graph.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace lockstep::trainer::core {

const char* name_of(OpKind op) {
  switch (op) {
    case OpKind::kLinear:
      return "linear";
    case OpKind::kRelu:
      return "relu";
    case OpKind::kGelu:
      return "gelu";
    case OpKind::kEmbedding:
      return "embedding";
    case OpKind::kAdd:
      return "add";
    case OpKind::kLayerNorm:
      return "layer_norm";
    case OpKind::kBatchNorm:
      return "batch_norm";
    case OpKind::kDropout:
      return "dropout";
    case OpKind::kCausalAttention:
      return "causal_attention";
    case OpKind::kSoftmaxCrossEntropy:
      return "softmax_cross_entropy";
    case OpKind::kMeanSquaredError:
      return "mean_squared_error";
  }
  return "unknown";
}

BackwardReads backward_reads(OpKind op) {
  switch (op) {
    case OpKind::kLinear:
    case OpKind::kGelu:
    case OpKind::kEmbedding:
    case OpKind::kLayerNorm:
    case OpKind::kBatchNorm:
    case OpKind::kCausalAttention:
    case OpKind::kSoftmaxCrossEntropy:
    case OpKind::kMeanSquaredError:
      return {.inputs = true};
    case OpKind::kRelu:
      return {.output = true};
    case OpKind::kAdd:
    case OpKind::kDropout:
      return {};
  }
  return {.inputs = true, .output = true};
}

bool is_loss(OpKind op) {
  return op == OpKind::kSoftmaxCrossEntropy || op == OpKind::kMeanSquaredError;
}

std::vector<TensorId> Graph::with_role(Role role) const {
  std::vector<TensorId> ids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role == role) ids.push_back(static_cast<TensorId>(i));
  }
  return ids;
}

double Graph::statistic_weight(TensorId id) const {
  for (const Node& node : nodes) {
    if (std::find(node.statistics.begin(), node.statistics.end(), id) != node.statistics.end()) return node.rate;
  }
  return 0;
}

void GraphBuilder::require(bool holds, const std::string& layer, const std::string& what) const {
  if (holds) return;
  std::fprintf(stderr, "model: layer '%s': %s\n", layer.c_str(), what.c_str());
  std::abort();
}

TensorId GraphBuilder::tensor(Tensor tensor) {
  require(count_of(tensor.shape) > 0, tensor.name, "a tensor must have at least one element");
  graph_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(graph_.tensors.size()) - 1;
}

TensorId GraphBuilder::real_input(std::string name, Shape shape) {
  return tensor({.name = std::move(name), .shape = std::move(shape), .role = Role::kInput});
}

TensorId GraphBuilder::index_input(std::string name, Shape shape) {
  return tensor({.name = std::move(name), .shape = std::move(shape), .role = Role::kInput, .number = Number::kIndex});
}

TensorId GraphBuilder::parameter(std::string name, Shape shape, Fill fill, double deviation, bool decay) {
  return tensor({.name = std::move(name),
                 .shape = std::move(shape),
                 .role = Role::kParameter,
                 .fill = fill,
                 .deviation = deviation,
                 .decay = decay,
                 .has_gradient = true});
}

TensorId GraphBuilder::saved(const std::string& name, Shape shape) {
  return tensor({.name = name, .shape = std::move(shape), .role = Role::kSaved});
}

TensorId GraphBuilder::statistic(const std::string& name, Shape shape, Fill fill) {
  return tensor({.name = name, .shape = std::move(shape), .role = Role::kStatistic, .fill = fill});
}

TensorId GraphBuilder::node(Node node, Shape output_shape) {
  bool learns = !node.parameters.empty();
  for (TensorId input : node.inputs) learns = learns || graph_.tensor(input).has_gradient;
  node.output = tensor({.name = node.name, .shape = std::move(output_shape), .has_gradient = learns});
  TensorId output = node.output;
  graph_.nodes.push_back(std::move(node));
  return output;
}

TensorId GraphBuilder::linear(const std::string& name, TensorId input, std::int64_t outputs, bool bias,
                              double deviation) {
  Shape in = shape(input);
  require(in.size() == 2, name, "the input must have rows and features");
  if (deviation == 0) deviation = 1.0 / std::sqrt(static_cast<double>(in[1]));
  Node layer{.op = OpKind::kLinear, .name = name, .inputs = {input}};
  layer.parameters.push_back(parameter(name + ".weight", {outputs, in[1]}, Fill::kNormal, deviation, true));
  if (bias) layer.parameters.push_back(parameter(name + ".bias", {outputs}, Fill::kZero));
  return node(std::move(layer), {in[0], outputs});
}

TensorId GraphBuilder::relu(const std::string& name, TensorId input) {
  return node({.op = OpKind::kRelu, .name = name, .inputs = {input}}, Shape(shape(input)));
}

TensorId GraphBuilder::gelu(const std::string& name, TensorId input) {
  return node({.op = OpKind::kGelu, .name = name, .inputs = {input}}, Shape(shape(input)));
}

TensorId GraphBuilder::embedding(const std::string& name, TensorId indices, std::int64_t vocabulary,
                                 std::int64_t positions, std::int64_t features) {
  require(graph_.tensor(indices).number == Number::kIndex, name, "the input must be indices");
  std::int64_t rows = count_of(shape(indices));
  require(rows % positions == 0, name, "rows must be a multiple of the positions");
  Node layer{.op = OpKind::kEmbedding, .name = name, .inputs = {indices}};
  layer.parameters.push_back(parameter(name + ".table", {vocabulary, features}, Fill::kNormal, 0.02));
  layer.parameters.push_back(parameter(name + ".positions", {positions, features}, Fill::kNormal, 0.02));
  return node(std::move(layer), {rows, features});
}

TensorId GraphBuilder::add(const std::string& name, TensorId a, TensorId b) {
  require(shape(a) == shape(b), name, "both inputs must have one shape");
  return node({.op = OpKind::kAdd, .name = name, .inputs = {a, b}}, Shape(shape(a)));
}

TensorId GraphBuilder::layer_norm(const std::string& name, TensorId input) {
  Shape in = shape(input);
  require(in.size() == 2, name, "the input must have rows and features");
  Node layer{.op = OpKind::kLayerNorm, .name = name, .inputs = {input}};
  layer.parameters = {parameter(name + ".gain", {in[1]}, Fill::kOne), parameter(name + ".shift", {in[1]}, Fill::kZero)};
  layer.saved = {saved(name + ".mean", {in[0]}), saved(name + ".inverse_deviation", {in[0]})};
  return node(std::move(layer), in);
}

TensorId GraphBuilder::batch_norm(const std::string& name, TensorId input, double momentum) {
  Shape in = shape(input);
  require(in.size() == 2, name, "the input must have rows and features");
  require(in[0] >= 2, name, "the variance of a batch needs at least two samples");
  Node layer{.op = OpKind::kBatchNorm, .name = name, .inputs = {input}, .rate = momentum};
  layer.parameters = {parameter(name + ".gain", {in[1]}, Fill::kOne), parameter(name + ".shift", {in[1]}, Fill::kZero)};
  layer.statistics = {statistic(name + ".running_mean", {in[1]}, Fill::kZero),
                      statistic(name + ".running_variance", {in[1]}, Fill::kOne)};
  layer.saved = {saved(name + ".mean", {in[1]}), saved(name + ".inverse_deviation", {in[1]})};
  return node(std::move(layer), in);
}

TensorId GraphBuilder::dropout(const std::string& name, TensorId input, double rate) {
  require(rate >= 0 && rate < 1, name, "the rate must be in [0, 1)");
  if (rate == 0) return input;
  return node({.op = OpKind::kDropout, .name = name, .inputs = {input}, .samples = graph_.batch, .rate = rate},
              Shape(shape(input)));
}

TensorId GraphBuilder::causal_attention(const std::string& name, TensorId qkv, std::int64_t heads) {
  Shape in = shape(qkv);
  require(in.size() == 2 && in[1] % (3 * heads) == 0, name, "features must be three times a multiple of the heads");
  require(in[0] % graph_.batch == 0, name, "rows must be a multiple of the batch");
  std::int64_t positions = in[0] / graph_.batch;
  Node layer{.op = OpKind::kCausalAttention, .name = name, .inputs = {qkv}, .heads = heads, .samples = graph_.batch};
  layer.saved = {saved(name + ".probabilities", {graph_.batch, heads, positions, positions})};
  return node(std::move(layer), {in[0], in[1] / 3});
}

TensorId GraphBuilder::softmax_cross_entropy(const std::string& name, TensorId scores, TensorId classes) {
  Shape in = shape(scores);
  require(graph_.tensor(classes).number == Number::kIndex, name, "the classes must be indices");
  require(in.size() == 2 && count_of(shape(classes)) == in[0], name, "each row of scores needs one class");
  Node layer{.op = OpKind::kSoftmaxCrossEntropy, .name = name, .inputs = {scores, classes}, .samples = graph_.batch};
  layer.saved = {saved(name + ".probabilities", in)};
  return node(std::move(layer), {graph_.batch});
}

TensorId GraphBuilder::mean_squared_error(const std::string& name, TensorId values, TensorId targets) {
  require(shape(values) == shape(targets), name, "values and targets must have one shape");
  require(!graph_.tensor(targets).has_gradient, name, "the targets must be an input");
  return node({.op = OpKind::kMeanSquaredError, .name = name, .inputs = {values, targets}, .samples = graph_.batch},
              {graph_.batch});
}

// A tensor that no loss reads has no gradient: nothing would write it.
void GraphBuilder::prune_gradients(TensorId loss) {
  std::vector<bool> reaches_loss(graph_.tensors.size(), false);
  reaches_loss[static_cast<size_t>(loss)] = true;
  for (size_t k = graph_.nodes.size(); k-- > 0;) {
    const Node& node = graph_.nodes[k];
    if (!reaches_loss[static_cast<size_t>(node.output)]) continue;
    require(node.output == loss || !is_loss(node.op), node.name,
            "the loss '" + graph_.tensor(loss).name + "' depends on this loss");
    for (const auto* read : {&node.inputs, &node.parameters}) {
      for (TensorId id : *read) reaches_loss[static_cast<size_t>(id)] = true;
    }
  }
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    graph_.tensors[i].has_gradient = graph_.tensors[i].has_gradient && reaches_loss[i];
  }
}

Graph GraphBuilder::finish(TensorId output, TensorId loss) {
  require(shape(loss) == Shape{graph_.batch}, graph_.tensor(loss).name, "the loss must have one value per sample");
  auto writer = std::find_if(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& n) { return n.output == loss; });
  require(writer != graph_.nodes.end() && is_loss(writer->op), graph_.tensor(loss).name,
          "the loss must be the output of softmax_cross_entropy or mean_squared_error");
  prune_gradients(loss);
  graph_.output = output;
  graph_.loss = loss;
  return std::exchange(graph_, {});
}

}  // namespace lockstep::trainer::core
