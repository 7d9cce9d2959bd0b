// A model as a static graph of layers: tensors with shapes, nodes in the order of the forward pass. Shapes are fixed
// (the batch is one micro-batch), so that everything that follows (the backward pass, memory, gradient buckets) is
// planned once. The graph knows no backend and no memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

using TensorId = int;

enum class Role : std::uint8_t {
  kInput,       // written by the data loader, real or index
  kParameter,   // learnt; has a gradient
  kStatistic,   // persistent, changed by commit alone (running mean and variance); always float64
  kActivation,  // written by a node
  kSaved,       // scratch that a node's forward pass leaves for its backward pass
};

enum class Number : std::uint8_t {
  kReal,   // float32 or float64, as the backend has it
  kIndex,  // int32
};

enum class Fill : std::uint8_t { kZero, kOne, kNormal };  // initial values; kNormal has `deviation`

struct Tensor {
  std::string name;  // unique for parameters and statistics: it names them in checkpoints
  Shape shape;
  Role role = Role::kActivation;
  Number number = Number::kReal;
  Fill fill = Fill::kZero;
  double deviation = 0;
  bool decay = false;         // weight decay applies (matrices, not biases or norms)
  bool has_gradient = false;  // something learnt lies before it and, in a finished graph, the loss after it
};

// Shapes: R rows (samples, or samples times positions), I and O features, V vocabulary, B samples, T positions.
enum class OpKind : std::uint8_t {
  kLinear,           // (R, I) with W (O, I), bias (O) -> (R, O)
  kRelu,             // (R, I) -> the same
  kGelu,             // (R, I) -> the same, the tanh form
  kEmbedding,        // indices (R) with table (V, O), positions (T, O) -> (R, O): a row of each, summed
  kAdd,              // two of (R, I) -> their sum
  kLayerNorm,        // (R, I) with gain (I), shift (I) -> the same; saved mean (R), inverse deviation (R)
  kBatchNorm,        // (R, I) with gain, shift -> the same; saved mean (I), inverse deviation (I); statistics (I) x 2
  kDropout,          // (R, I) -> the same; only in training
  kCausalAttention,  // (R, 3 I): queries, keys, values side by side -> (R, I); saved probabilities (B, heads, T, T)
  kSoftmaxCrossEntropy,  // scores (R, V), classes (R) -> loss per sample (B): mean nats; saved probabilities (R, V)
  kMeanSquaredError,     // values (R, I), targets (R, I) -> loss per sample (B): mean of the squares
};

const char* name_of(OpKind op);
bool is_loss(OpKind op);  // its backward pass starts at RunContext::loss_scale and reads no gradient of its output

struct Node {
  OpKind op = OpKind::kLinear;
  std::string name;  // keys dropout's random numbers
  std::vector<TensorId> inputs;
  std::vector<TensorId> parameters;
  std::vector<TensorId> statistics;
  std::vector<TensorId> saved;
  TensorId output = -1;
  std::int64_t heads = 1;    // kCausalAttention
  std::int64_t samples = 0;  // B, where rows are samples times positions
  double rate = 0;           // kDropout: fraction of elements set to zero; kBatchNorm: weight of the new statistics
  double epsilon = 1e-5;     // the norms
};

// Which tensors of a node its backward pass reads, besides parameters and saved ones.
struct BackwardReads {
  bool inputs = false;
  bool output = false;
};
BackwardReads backward_reads(OpKind op);

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  TensorId loss = -1;    // (B): loss of each sample
  TensorId output = -1;  // what prediction reads (scores, values); kept until the next forward pass
  std::int64_t batch = 0;

  const Tensor& tensor(TensorId id) const { return tensors[static_cast<size_t>(id)]; }
  std::vector<TensorId> with_role(Role role) const;  // in order of creation
  double statistic_weight(TensorId id) const;        // of a new value in the running mean that the statistic is
};

// Builds a Graph layer by layer; each function returns the tensor that the layer writes. Shapes that do not fit are a
// bug in a model and end the process with a message.
class GraphBuilder {
 public:
  // `batch`: samples in one micro-batch.
  explicit GraphBuilder(std::int64_t batch) { graph_.batch = batch; }

  TensorId real_input(std::string name, Shape shape);
  TensorId index_input(std::string name, Shape shape);
  TensorId parameter(std::string name, Shape shape, Fill fill, double deviation = 0, bool decay = false);

  // A linear layer `name`.weight, and `name`.bias unless `bias` is false; weights have `deviation`
  // (0: 1 / sqrt(features of the input)).
  TensorId linear(const std::string& name, TensorId input, std::int64_t outputs, bool bias = true,
                  double deviation = 0);
  TensorId relu(const std::string& name, TensorId input);
  TensorId gelu(const std::string& name, TensorId input);
  TensorId embedding(const std::string& name, TensorId indices, std::int64_t vocabulary, std::int64_t positions,
                     std::int64_t features);
  TensorId add(const std::string& name, TensorId a, TensorId b);
  TensorId layer_norm(const std::string& name, TensorId input);
  TensorId batch_norm(const std::string& name, TensorId input, double momentum = 0.1);
  TensorId dropout(const std::string& name, TensorId input, double rate);  // rate 0: returns `input`
  TensorId causal_attention(const std::string& name, TensorId qkv, std::int64_t heads);
  TensorId softmax_cross_entropy(const std::string& name, TensorId scores, TensorId classes);
  TensorId mean_squared_error(const std::string& name, TensorId values, TensorId targets);

  // The finished graph; the builder is empty afterwards. `loss` is the output of a node of which is_loss() holds, and
  // depends on no other such node. A tensor that the loss does not depend on has no gradient.
  Graph finish(TensorId output, TensorId loss);

 private:
  TensorId tensor(Tensor tensor);
  TensorId saved(const std::string& name, Shape shape);
  TensorId statistic(const std::string& name, Shape shape, Fill fill);
  TensorId node(Node node, Shape output_shape);
  const Shape& shape(TensorId id) const { return graph_.tensor(id).shape; }
  void require(bool holds, const std::string& layer, const std::string& what) const;
  void prune_gradients(TensorId loss);

  Graph graph_;
};

}  // namespace lockstep::trainer::core
