// Builds a graph layer by layer. The functions of the ops (ops/linear.h and others) call it, one for each kind of
// layer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

struct Graph;
struct Node;

// What a layer is connected to, in the order that its op documents.
struct Connections {
  std::string name;  // unique; keys the random numbers of the layer
  std::vector<TensorId> inputs;
  std::vector<TensorId> parameters;
  std::vector<TensorId> statistics;
};

// What training makes small: the sum of all losses of a graph, each times its weight.
struct WeightedLoss {
  TensorId tensor = -1;  // (B): loss of each sample, the output of a node of which is_loss() holds
  double weight = 1;     // finite, not 0
};

// What prediction reads (scores, values).
struct NamedOutput {
  std::string name;
  TensorId tensor = -1;
};

// Shapes that do not fit are a bug in a model and end the process with a message. One thread.
class GraphBuilder {
 public:
  // `batch`: samples in one micro-batch.
  explicit GraphBuilder(std::int64_t batch);
  ~GraphBuilder();
  GraphBuilder(GraphBuilder&&) noexcept;

  TensorId real_input(std::string name, Shape shape);
  TensorId index_input(std::string name, Shape shape);
  // Layers that ask for a parameter of one name share it, and their gradients add up. They must ask for the same shape,
  // fill and deviation. It decays if any of them says so.
  TensorId parameter(std::string name, Shape shape, Fill fill, double deviation = 0, bool decay = false);
  // A running mean; `weight`: of the newest value in it.
  TensorId statistic(const std::string& name, Shape shape, Fill fill, double weight);

  // Appends a node that computes `op`, and returns its output, a tensor of shape `output`.
  template <typename Kind>
  TensorId add(Kind op, Connections connections, Shape output);

  // The finished graph; the builder is empty afterwards. There is at least one loss, and none depends on another node
  // of which is_loss() holds. A tensor that no loss depends on has no gradient. Names are unique: of layers, of
  // outputs, and of inputs, parameters and statistics together.
  Graph finish(std::vector<NamedOutput> outputs, std::vector<WeightedLoss> losses);
  // With one loss of weight 1, and one output that has the name of its tensor.
  Graph finish(TensorId output, TensorId loss);

  const Tensor& tensor(TensorId id) const;
  const Shape& shape(TensorId id) const { return tensor(id).shape; }
  std::int64_t batch() const;
  // Ends the process with a message that names the layer, unless `holds`.
  static void require(bool holds, const std::string& layer, const std::string& what);

 private:
  TensorId append(Tensor tensor);
  TensorId append(Node node, Shape output);
  void require_unique_names() const;
  void require_losses() const;
  void prune_gradients();

  std::unique_ptr<Graph> graph_;
};

}  // namespace lockstep::trainer::core
