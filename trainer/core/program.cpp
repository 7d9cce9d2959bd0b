#include "trainer/core/program.h"

#include <algorithm>
#include <string>

#include "trainer/core/planner.h"

namespace lockstep::trainer::core {

namespace {

size_t bytes_of(const Tensor& tensor, ElementType real) {
  return static_cast<size_t>(count_of(tensor.shape)) *
         size_of(tensor.number == Number::kIndex ? ElementType::kInt32 : real);
}

bool runs_backward(const Graph& graph, const Node& node) {
  return graph.tensor(node.output).has_gradient;
}

// The schedule: node k runs forward at position k and, if at all, backward at position 2N - 1 - k.
struct Lifetimes {
  std::vector<Lifetime> list;
  std::vector<int> of_value;     // index into list by tensor, -1: none
  std::vector<int> of_gradient;  // the same for its gradient
};

void extend(Lifetime& lifetime, int position) {
  lifetime.first = std::min(lifetime.first, position);
  lifetime.last = std::max(lifetime.last, position);
}

Lifetimes lifetimes_of(const Graph& graph, ElementType real, bool trains) {
  int nodes = static_cast<int>(graph.nodes.size());
  int end = 2 * nodes;
  Lifetimes lives;
  lives.of_value.assign(graph.tensors.size(), -1);
  lives.of_gradient.assign(graph.tensors.size(), -1);
  auto add = [&](std::vector<int>& slot, TensorId id) {
    slot[static_cast<size_t>(id)] = static_cast<int>(lives.list.size());
    lives.list.push_back({bytes_of(graph.tensor(id), real), end, -1});
  };
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    bool planned = tensor.role == Role::kActivation || tensor.role == Role::kSaved;
    if (planned) add(lives.of_value, static_cast<TensorId>(i));
    if (trains && tensor.role == Role::kActivation && tensor.has_gradient && static_cast<TensorId>(i) != graph.loss) {
      add(lives.of_gradient, static_cast<TensorId>(i));
    }
  }
  auto touch = [&](const std::vector<int>& slot, TensorId id, int position) {
    if (int index = slot[static_cast<size_t>(id)]; index >= 0) extend(lives.list[static_cast<size_t>(index)], position);
  };
  for (int k = 0; k < nodes; ++k) {
    const Node& node = graph.nodes[static_cast<size_t>(k)];
    for (const auto* used : {&node.inputs, &node.saved}) {
      for (TensorId id : *used) touch(lives.of_value, id, k);
    }
    touch(lives.of_value, node.output, k);
    if (!trains || !runs_backward(graph, node)) continue;
    int back = 2 * nodes - 1 - k;
    BackwardReads reads = backward_reads(node.op);
    for (TensorId id : node.inputs) {
      if (reads.inputs) touch(lives.of_value, id, back);
      touch(lives.of_gradient, id, back);
    }
    for (TensorId id : node.saved) touch(lives.of_value, id, back);
    if (reads.output) touch(lives.of_value, node.output, back);
    touch(lives.of_gradient, node.output, back);
  }
  touch(lives.of_value, graph.loss, end);
  touch(lives.of_value, graph.output, end);
  return lives;
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (std::int64_t dimension : shape) text += (text.empty() ? "(" : ", ") + std::to_string(dimension);
  return text + ")";
}

// Where the tensor lies in the arena of `segments`, in elements.
Result<size_t> offset_of(const Tensor& tensor, const std::vector<Segment>& segments) {
  auto at = std::find_if(segments.begin(), segments.end(), [&](const Segment& s) { return s.name == tensor.name; });
  if (at == segments.end()) {
    return fail(ErrorCode::kInvalid, "the state has no '" + tensor.name + "', which the graph needs");
  }
  if (at->shape != tensor.shape) {
    return fail(ErrorCode::kInvalid, "'" + tensor.name + "' has the shape " + text_of(at->shape) +
                                         " in the state, but " + text_of(tensor.shape) + " in the graph");
  }
  return at->offset;
}

}  // namespace

Result<std::unique_ptr<Program>> Program::compile(const Graph& graph, Backend& backend, const ProgramMemory& memory,
                                                  ProgramOptions options) {
  std::unique_ptr<Program> program(new Program(graph, backend, options.pulse));
  ElementType real = backend.real();
  bool trains = memory.gradients != nullptr;

  Lifetimes lives = lifetimes_of(graph, real, trains);
  if (!options.share_memory) {
    for (Lifetime& lifetime : lives.list) lifetime = {lifetime.bytes, 0, 0};
  }
  MemoryPlan plan = plan_memory(lives.list);
  LOCKSTEP_TRY(program->arena_, backend.allocate(plan.bytes));

  size_t input_bytes = 0;
  for (TensorId id : graph.with_role(Role::kInput)) {
    input_bytes += align_up(bytes_of(graph.tensor(id), real), kAlignment);
  }
  LOCKSTEP_TRY(program->inputs_, backend.allocate(input_bytes));

  size_t tensors = graph.tensors.size();
  program->addresses_.assign(tensors, nullptr);
  program->gradient_addresses_.assign(tensors, nullptr);
  program->statistics_.assign(tensors, nullptr);
  program->staged_.assign(tensors, nullptr);
  for (size_t i = 0; i < tensors; ++i) {
    auto address = [&](int index) -> void* {
      return index < 0 ? nullptr : program->arena_->data() + plan.offsets[static_cast<size_t>(index)];
    };
    program->addresses_[i] = address(lives.of_value[i]);
    program->gradient_addresses_[i] = address(lives.of_gradient[i]);
  }
  size_t input_offset = 0;
  for (TensorId id : graph.with_role(Role::kInput)) {
    program->addresses_[static_cast<size_t>(id)] = program->inputs_->data() + input_offset;
    input_offset += align_up(bytes_of(graph.tensor(id), real), kAlignment);
  }
  LOCKSTEP_CHECK_OK(program->place_state(memory));

  // Gradients are bound in the order of the backward pass: the first writer overwrites, later ones add.
  std::vector<bool> gradient_written(tensors, false);
  program->kernels_.resize(graph.nodes.size());
  for (size_t k = graph.nodes.size(); k-- > 0;) {
    const Node& node = graph.nodes[k];
    LOCKSTEP_TRY(program->kernels_[k], backend.compile(graph, node, program->bind(node, memory, gradient_written)));
  }
  return program;
}

Status Program::place_state(const ProgramMemory& memory) {
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    const Tensor& tensor = graph_.tensors[i];
    if (tensor.role == Role::kParameter) {
      LOCKSTEP_TRY(size_t element, offset_of(tensor, memory.layout->segments));
      size_t offset = element * size_of(backend_.real());
      addresses_[i] = memory.parameters + offset;
      if (memory.gradients != nullptr) gradient_addresses_[i] = memory.gradients + offset;
    } else if (tensor.role == Role::kStatistic) {
      LOCKSTEP_TRY(size_t offset, offset_of(tensor, memory.layout->statistics));
      statistics_[i] = memory.statistics + offset;
      if (memory.staged_statistics != nullptr) staged_[i] = memory.staged_statistics + offset;
    }
  }
  return {};
}

Bindings Program::bind(const Node& node, const ProgramMemory& memory, std::vector<bool>& gradient_written) const {
  auto at = [](const auto& list, TensorId id) { return list[static_cast<size_t>(id)]; };
  Bindings bindings;
  for (TensorId id : node.inputs) {
    bindings.inputs.push_back(at(addresses_, id));
    bindings.input_gradients.push_back(at(gradient_addresses_, id));
    // Gradients of parameters accumulate over micro-batches, so the caller clears them at the start of a step.
    bool add = graph_.tensor(id).role == Role::kParameter || gradient_written[static_cast<size_t>(id)];
    bindings.accumulate.push_back(add);
    if (runs_backward(graph_, node)) gradient_written[static_cast<size_t>(id)] = true;
  }
  for (TensorId id : node.parameters) {
    bindings.parameters.push_back(at(addresses_, id));
    bindings.parameter_gradients.push_back(memory.gradients != nullptr ? at(gradient_addresses_, id) : nullptr);
  }
  for (TensorId id : node.statistics) {
    bindings.statistics.push_back(at(statistics_, id));
    bindings.staged_statistics.push_back(at(staged_, id));
  }
  for (TensorId id : node.saved) bindings.saved.push_back(at(addresses_, id));
  bindings.output = at(addresses_, node.output);
  bindings.output_gradient = at(gradient_addresses_, node.output);
  return bindings;
}

Status Program::forward(const RunContext& context, const std::atomic<bool>& abort) {
  backend_.enter();
  for (auto& kernel : kernels_) {
    if (abort.load(std::memory_order_relaxed)) return fail(ErrorCode::kCancelled, "the forward pass was aborted");
    LOCKSTEP_CHECK_OK(kernel->forward(context));
    if (pulse_ != nullptr) pulse_->beat();
  }
  return {};
}

Status Program::backward(size_t node, const RunContext& context, const std::atomic<bool>& abort) {
  if (abort.load(std::memory_order_relaxed)) return fail(ErrorCode::kCancelled, "the backward pass was aborted");
  if (node + 1 == kernels_.size()) backend_.enter();
  if (runs_backward(graph_, graph_.nodes[node])) LOCKSTEP_CHECK_OK(kernels_[node]->backward(context));
  if (pulse_ != nullptr) pulse_->beat();
  return {};
}

double Program::loss(std::int64_t sample) const {
  const void* address = data(graph_.loss);
  return backend_.real() == ElementType::kFloat32 ? static_cast<const float*>(address)[sample]
                                                  : static_cast<const double*>(address)[sample];
}

}  // namespace lockstep::trainer::core
