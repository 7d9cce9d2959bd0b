#include "trainer/backend/node_steps.h"

#include <algorithm>
#include <utility>

namespace lockstep::trainer::backend {

namespace {

// Inputs of the run's nodes, in order, that none of them writes.
std::vector<core::TensorId> inputs_of(const core::Graph& graph, const Run& run) {
  std::vector<core::TensorId> inputs;
  for (size_t i = run.first; i < run.first + run.count; ++i) {
    for (core::TensorId id : graph.nodes[i].inputs) {
      const bool inside = i > run.first && id == graph.nodes[i - 1].output;
      if (!inside) inputs.push_back(id);
    }
  }
  return inputs;
}

// Parameters of the run's nodes, in order.
std::vector<core::TensorId> parameters_of(const core::Graph& graph, const Run& run) {
  std::vector<core::TensorId> parameters;
  for (size_t i = run.first; i < run.first + run.count; ++i) {
    const std::vector<core::TensorId>& of_node = graph.nodes[i].parameters;
    parameters.insert(parameters.end(), of_node.begin(), of_node.end());
  }
  return parameters;
}

bool has_memory(const core::Graph& graph, core::TensorId id) {
  const core::Role role = graph.tensor(id).role;
  return role == core::Role::kInput || role == core::Role::kActivation;
}

core::Step step_of(const core::Graph& graph, const Run& run, bool trains, size_t element, const Needs& needs) {
  const core::Node& last = graph.nodes[run.first + run.count - 1];
  const std::vector<core::TensorId> inputs = inputs_of(graph, run);
  core::Step step{.writes = {last.output}};
  for (size_t i = 0; i < run.count; ++i) step.nodes.push_back(run.first + i);
  for (core::TensorId id : inputs) {
    if (has_memory(graph, id)) step.reads.push_back(id);
  }
  for (size_t elements : needs.keeps) step.keeps.push_back(elements * element);
  step.forward_scratch = needs.forward_scratch * element;
  step.cheap = needs.cheap;
  if (!trains || !graph.tensor(last.output).has_gradient) return step;
  if (needs.reads_inputs) step.backward_reads = step.reads;
  if (needs.reads_output) step.backward_reads.push_back(last.output);
  if (!core::is_loss(last.op)) step.gradient_reads = {last.output};
  for (core::TensorId id : inputs) {
    if (graph.tensor(id).has_gradient) step.gradient_writes.push_back(id);
  }
  step.backward_scratch = needs.backward_scratch * element;
  for (size_t i : needs.overwrites) step.overwrites.push_back(parameters_of(graph, run)[i]);
  return step;
}

Run run_of(const core::Step& step) {
  return {.first = step.nodes.front(), .count = step.nodes.size()};
}

Bindings bindings_of(const core::Graph& graph, const core::Step& step, const core::StepMemory& memory,
                     const core::Addresses& addresses) {
  auto at = [](const auto& list, core::TensorId id) { return list[static_cast<size_t>(id)]; };
  const core::TensorId output = graph.nodes[step.nodes.back()].output;
  Bindings bindings{.keeps = memory.keeps,
                    .forward_scratch = memory.forward_scratch,
                    .backward_scratch = memory.backward_scratch,
                    .output = at(addresses.values, output),
                    .output_gradient = at(addresses.gradients, output)};
  size_t written = 0;
  for (core::TensorId id : inputs_of(graph, run_of(step))) {
    bindings.inputs.push_back(at(addresses.values, id));
    const bool wanted = written < step.gradient_writes.size() && step.gradient_writes[written] == id;
    bindings.input_gradients.push_back(wanted ? at(addresses.gradients, id) : nullptr);
    bindings.accumulate.push_back(wanted && memory.adds[written]);
    written += wanted ? 1 : 0;
  }
  for (core::TensorId id : parameters_of(graph, run_of(step))) {
    bindings.parameters.push_back(at(addresses.values, id));
    bindings.parameter_gradients.push_back(at(addresses.gradients, id));
    const auto told = std::find(step.overwrites.begin(), step.overwrites.end(), id);
    const bool overwrites = told != step.overwrites.end() && memory.overwrites[told - step.overwrites.begin()];
    bindings.overwrites.push_back(overwrites);
  }
  for (size_t node : step.nodes) {
    for (core::TensorId id : graph.nodes[node].statistics) {
      bindings.statistics.push_back(at(addresses.statistics, id));
      bindings.staged_statistics.push_back(at(addresses.staged_statistics, id));
    }
  }
  return bindings;
}

class Kernels final : public core::Executable {
 public:
  explicit Kernels(std::vector<std::unique_ptr<Kernel>> kernels) : kernels_(std::move(kernels)) {}
  Status forward(size_t step, const core::RunContext& context) override { return kernels_[step]->forward(context); }
  Status recompute(size_t step, const core::RunContext& context) override { return kernels_[step]->recompute(context); }
  Status backward(size_t step, const core::RunContext& context) override { return kernels_[step]->backward(context); }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace

std::vector<Run> nodes_alone(const core::Graph& graph) {
  std::vector<Run> runs;
  for (size_t i = 0; i < graph.nodes.size(); ++i) runs.push_back({.first = i});
  return runs;
}

core::Lowered lower_nodes(const core::Graph& graph, bool trains, core::ElementType real, const std::vector<Run>& runs,
                          const std::function<Needs(const Run&)>& needs_of) {
  core::Lowered lowered;
  for (const Run& run : runs) {
    lowered.steps.push_back(step_of(graph, run, trains, core::size_of(real), needs_of(run)));
  }
  for (const core::Tensor& tensor : graph.tensors) {
    const size_t bytes = core::bytes_of(tensor, real);
    lowered.value_bytes.push_back(bytes);
    lowered.gradient_bytes.push_back(trains && tensor.has_gradient ? bytes : 0);
  }
  for (const core::WeightedLoss& loss : graph.losses) lowered.gradient_bytes[static_cast<size_t>(loss.tensor)] = 0;
  for (const Run& run : runs) {
    for (size_t i = run.first; i + 1 < run.first + run.count; ++i) {
      const auto inside = static_cast<size_t>(graph.nodes[i].output);
      lowered.value_bytes[inside] = lowered.gradient_bytes[inside] = 0;
    }
  }
  return lowered;
}

std::unique_ptr<core::Executable> bind_nodes(
    const core::Graph& graph, const core::Lowered& lowered, const core::Addresses& addresses,
    const std::function<std::unique_ptr<Kernel>(const Run&, Bindings)>& make_kernel) {
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (size_t i = 0; i < lowered.steps.size(); ++i) {
    const core::Step& step = lowered.steps[i];
    kernels.push_back(make_kernel(run_of(step), bindings_of(graph, step, addresses.steps[i], addresses)));
  }
  return std::make_unique<Kernels>(std::move(kernels));
}

}  // namespace lockstep::trainer::backend
