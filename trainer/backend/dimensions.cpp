#include "trainer/backend/dimensions.h"

namespace lockstep::trainer::backend {

Dimensions dimensions_of(const core::Graph& graph, const core::Node& node) {
  const core::Shape& input = graph.tensor(node.inputs[0]).shape;
  const core::Shape& output = graph.tensor(node.output).shape;
  Dimensions d;
  bool indices = graph.tensor(node.inputs[0]).number == core::Number::kIndex;
  d.in = indices || input.size() < 2 ? 1 : static_cast<size_t>(input.back());
  d.rows = static_cast<size_t>(core::count_of(input)) / d.in;
  d.out = output.size() < 2 ? 1 : static_cast<size_t>(output.back());
  d.samples = static_cast<size_t>(graph.batch);
  d.positions = d.rows / d.samples;
  if (node.op == core::OpKind::kEmbedding) {
    d.positions = static_cast<size_t>(graph.tensor(node.parameters[1]).shape[0]);
  }
  d.heads = static_cast<size_t>(node.heads);
  d.head = d.out / d.heads;
  return d;
}

}  // namespace lockstep::trainer::backend
