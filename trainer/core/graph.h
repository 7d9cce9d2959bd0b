// A model as a static graph of layers: tensors with shapes, nodes in the order of the forward pass. Shapes are fixed
// (the batch is one micro-batch), so that everything that follows (the backward pass, memory, gradient buckets) is
// planned once. The graph knows no backend and no memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/core/graph_builder.h"
#include "trainer/core/ops.h"
#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

struct Node {
  Op op;
  std::string name;  // keys dropout's random numbers
  std::vector<TensorId> inputs;
  std::vector<TensorId> parameters;
  std::vector<TensorId> statistics;
  TensorId output = -1;
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<WeightedLoss> losses;
  std::vector<NamedOutput> outputs;
  std::int64_t batch = 0;

  const Tensor& tensor(TensorId id) const { return tensors[static_cast<size_t>(id)]; }
  std::vector<TensorId> with_role(Role role) const;  // in order of creation
  // The output of that name. A name that the graph lacks is a bug of the caller and ends the process with a message.
  TensorId output(std::string_view name) const;
  // The weight of the loss with these values; 0: it is none of the graph's.
  double weight_of(TensorId loss) const;
};

// Multiplications and additions of a micro-batch. Counted are ops that have a function flops(shape of the first input,
// shape of the output, batch) for their forward pass: sums of products. Others cost little beside them, and published
// figures leave them out as well.
struct Flops {
  double forward = 0;
  double backward = 0;  // a product as large as the forward one for each operand that has a gradient
};
Flops flops_of(const Graph& graph);

template <typename Kind>
TensorId GraphBuilder::add(Kind op, Connections connections, Shape output) {
  return append(Node{.op = std::move(op),
                     .name = std::move(connections.name),
                     .inputs = std::move(connections.inputs),
                     .parameters = std::move(connections.parameters),
                     .statistics = std::move(connections.statistics)},
                std::move(output));
}

}  // namespace lockstep::trainer::core
