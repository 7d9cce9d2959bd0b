#include "tests/trainer/backend/cuda/roofline/step_work.h"

#include "tests/trainer/backend/cuda/roofline/fused_work.h"
#include "tests/trainer/backend/cuda/roofline/node_bytes.h"
#include "tests/trainer/backend/cuda/roofline/node_work.h"

namespace lockstep::trainer::testing {

std::vector<Work> works_of_step(const core::Graph& graph, backend::Precision precision, int slots, Fused fused) {
  std::vector<Work> works;
  const auto by_node = fused == Fused::kYes ? fused_works_of_nodes(graph, precision) : works_of_nodes(graph, precision);
  for (const std::vector<Work>& of_node : by_node) works.insert(works.end(), of_node.begin(), of_node.end());
  // Images come as bytes, and are written as float32.
  for (const core::TensorId id : graph.with_role(core::Role::kInput)) {
    const core::Tensor& input = graph.tensor(id);
    if (input.number != core::Number::kReal || input.shape.size() != 4) continue;
    works.push_back(
        {"all", "images", Pass::kForward, 0, (1 + 4) * static_cast<double>(core::count_of(input.shape)), false});
  }
  double floats = 0, overwritten = 0;
  for (const core::Node& node : graph.nodes) {
    const NodeBytes bytes(graph, node, precision, std::vector<bool>(node.inputs.size()));
    for (size_t i = 0; i < node.parameters.size(); ++i) {
      if (bytes.overwrites(i)) overwritten += bytes.elements(node.parameters[i]);
    }
  }
  for (const core::TensorId id : graph.with_role(core::Role::kParameter)) {
    floats += static_cast<double>(core::count_of(graph.tensor(id).shape));
  }
  // Gradients cleared; all read; and all read, with parameters and slots read and written.
  for (const double numbers : {floats - overwritten, floats, (1.0 + 2 * (1 + slots)) * floats}) {
    works.push_back({"all", "optimizer", Pass::kUpdate, 0, 4 * numbers, false});
  }
  return works;
}

}  // namespace lockstep::trainer::testing
