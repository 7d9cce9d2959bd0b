#include "tests/trainer/backend/cuda/roofline/step_work.h"

#include "tests/trainer/backend/cuda/roofline/fused_work.h"
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
  double floats = 0;
  for (const core::TensorId id : graph.with_role(core::Role::kParameter)) {
    floats += static_cast<double>(core::count_of(graph.tensor(id).shape));
  }
  // Written once; read once; and gradients read, parameters and slots read and written.
  for (const double times : {1.0, 1.0, 1.0 + 2 * (1 + slots)}) {
    works.push_back({"all", "optimizer", Pass::kUpdate, 0, times * 4 * floats, false});
  }
  return works;
}

}  // namespace lockstep::trainer::testing
