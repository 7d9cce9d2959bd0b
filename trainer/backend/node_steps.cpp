#include "trainer/backend/node_steps.h"

#include <utility>

namespace lockstep::trainer::backend {

namespace {

bool has_memory(const core::Graph& graph, core::TensorId id) {
  const core::Role role = graph.tensor(id).role;
  return role == core::Role::kInput || role == core::Role::kActivation;
}

core::Step step_of(const core::Graph& graph, size_t index, bool trains, size_t element, const Needs& needs) {
  const core::Node& node = graph.nodes[index];
  core::Step step{.nodes = {index}, .writes = {node.output}};
  for (core::TensorId id : node.inputs) {
    if (has_memory(graph, id)) step.reads.push_back(id);
  }
  for (size_t elements : needs.keeps) step.keeps.push_back(elements * element);
  step.forward_scratch = needs.forward_scratch * element;
  if (!trains || !graph.tensor(node.output).has_gradient) return step;
  if (needs.reads_inputs) step.backward_reads = step.reads;
  if (needs.reads_output) step.backward_reads.push_back(node.output);
  if (!core::is_loss(node.op)) step.gradient_reads = {node.output};
  for (core::TensorId id : node.inputs) {
    if (graph.tensor(id).has_gradient) step.gradient_writes.push_back(id);
  }
  step.backward_scratch = needs.backward_scratch * element;
  return step;
}

Bindings bindings_of(const core::Graph& graph, const core::Step& step, const core::StepMemory& memory,
                     const core::Addresses& addresses) {
  auto at = [](const auto& list, core::TensorId id) { return list[static_cast<size_t>(id)]; };
  const core::Node& node = graph.nodes[step.nodes.front()];
  Bindings bindings{.keeps = memory.keeps,
                    .forward_scratch = memory.forward_scratch,
                    .backward_scratch = memory.backward_scratch,
                    .output = at(addresses.values, node.output),
                    .output_gradient = at(addresses.gradients, node.output)};
  size_t written = 0;
  for (core::TensorId id : node.inputs) {
    bindings.inputs.push_back(at(addresses.values, id));
    const bool wanted = written < step.gradient_writes.size() && step.gradient_writes[written] == id;
    bindings.input_gradients.push_back(wanted ? at(addresses.gradients, id) : nullptr);
    bindings.accumulate.push_back(wanted && memory.adds[written]);
    written += wanted ? 1 : 0;
  }
  for (core::TensorId id : node.parameters) {
    bindings.parameters.push_back(at(addresses.values, id));
    bindings.parameter_gradients.push_back(at(addresses.gradients, id));
  }
  for (core::TensorId id : node.statistics) {
    bindings.statistics.push_back(at(addresses.statistics, id));
    bindings.staged_statistics.push_back(at(addresses.staged_statistics, id));
  }
  return bindings;
}

class Kernels final : public core::Executable {
 public:
  explicit Kernels(std::vector<std::unique_ptr<Kernel>> kernels) : kernels_(std::move(kernels)) {}
  Status forward(size_t step, const core::RunContext& context) override { return kernels_[step]->forward(context); }
  Status backward(size_t step, const core::RunContext& context) override { return kernels_[step]->backward(context); }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace

core::Lowered lower_nodes(const core::Graph& graph, bool trains, core::ElementType real,
                          const std::function<Needs(const core::Node&)>& needs_of) {
  core::Lowered lowered;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    lowered.steps.push_back(step_of(graph, i, trains, core::size_of(real), needs_of(graph.nodes[i])));
  }
  for (const core::Tensor& tensor : graph.tensors) {
    const size_t bytes = core::bytes_of(tensor, real);
    lowered.value_bytes.push_back(bytes);
    lowered.gradient_bytes.push_back(trains && tensor.has_gradient ? bytes : 0);
  }
  for (const core::WeightedLoss& loss : graph.losses) lowered.gradient_bytes[static_cast<size_t>(loss.tensor)] = 0;
  return lowered;
}

std::unique_ptr<core::Executable> bind_nodes(
    const core::Graph& graph, const core::Lowered& lowered, const core::Addresses& addresses,
    const std::function<std::unique_ptr<Kernel>(const core::Node&, Bindings)>& make_kernel) {
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (size_t i = 0; i < lowered.steps.size(); ++i) {
    const core::Step& step = lowered.steps[i];
    kernels.push_back(
        make_kernel(graph.nodes[step.nodes.front()], bindings_of(graph, step, addresses.steps[i], addresses)));
  }
  return std::make_unique<Kernels>(std::move(kernels));
}

}  // namespace lockstep::trainer::backend
