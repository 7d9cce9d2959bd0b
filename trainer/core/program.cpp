#include "trainer/core/program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "trainer/core/footprint.h"
#include "trainer/core/memory_plan.h"

namespace lockstep::trainer::core {

namespace {

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
  std::unique_ptr<Program> program(new Program(graph, backend, options.pulse, memory.gradients));
  const bool trains = memory.gradients != nullptr;
  LOCKSTEP_TRY(program->lowered_, backend.lower(graph, trains));
  const std::vector<Step>& steps = program->lowered_.steps;

  auto [recomputation, map, plan] = plan_memory_of(graph, program->lowered_, trains, options.recompute);
  program->recomputation_ = std::move(recomputation);
  if (!options.share_memory) {
    for (Lifetime& lifetime : map.blocks) lifetime = {.bytes = lifetime.bytes, .span = {0, 0}};
    plan = plan_memory(map.blocks);
  }
  LOCKSTEP_TRY(program->arena_, backend.allocate(plan.bytes));
  auto address = [&program, &offsets = plan.offsets](int block) -> void* {
    return block < 0 ? nullptr : program->arena_->data() + offsets[static_cast<size_t>(block)];
  };

  Addresses& addresses = program->addresses_;
  for (int block : map.values) addresses.values.push_back(address(block));
  for (int block : map.gradients) addresses.gradients.push_back(address(block));
  for (const StepBlocks& blocks : map.steps) {
    StepMemory step{.forward_scratch = address(blocks.forward_scratch),
                    .backward_scratch = address(blocks.backward_scratch)};
    for (int block : blocks.keeps) step.keeps.push_back(address(block));
    addresses.steps.push_back(std::move(step));
  }

  LOCKSTEP_TRY(program->inputs_, backend.allocate(bytes_of_inputs(graph, backend.real())));
  program->place_inputs();
  LOCKSTEP_CHECK_OK(program->place_state(memory));
  program->find_first_writers();
  size_t done_from = 0;
  for (const Step& step : steps) {
    program->done_from_.push_back(done_from);
    done_from = std::max(done_from, step.nodes.back() + 1);
    bool learns = false;
    for (size_t node : step.nodes) learns = learns || graph.tensor(graph.nodes[node].output).has_gradient;
    program->learns_.push_back(learns);
  }
  if (trains) program->find_only_writers(*memory.layout);
  LOCKSTEP_TRY(program->executable_, backend.bind(graph, program->lowered_, addresses));
  return program;
}

void Program::place_inputs() {
  size_t offset = 0;
  for (TensorId id : graph_.with_role(Role::kInput)) {
    addresses_.values[static_cast<size_t>(id)] = inputs_->data() + offset;
    offset += align_up(bytes_of(graph_.tensor(id), backend_.real()), kAlignment);
  }
}

// Parameters, gradients and statistics lie in the arenas of others.
Status Program::place_state(const ProgramMemory& memory) {
  addresses_.statistics.assign(graph_.tensors.size(), nullptr);
  addresses_.staged_statistics.assign(graph_.tensors.size(), nullptr);
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    const Tensor& tensor = graph_.tensors[i];
    if (tensor.role == Role::kParameter) {
      LOCKSTEP_TRY(size_t element, offset_of(tensor, memory.layout->segments));
      const size_t offset = element * size_of(backend_.real());
      addresses_.values[i] = memory.parameters + offset;
      if (memory.gradients != nullptr) addresses_.gradients[i] = memory.gradients + offset;
    } else if (tensor.role == Role::kStatistic) {
      LOCKSTEP_TRY(size_t offset, offset_of(tensor, memory.layout->statistics));
      addresses_.statistics[i] = memory.statistics + offset;
      if (memory.staged_statistics != nullptr) addresses_.staged_statistics[i] = memory.staged_statistics + offset;
    }
  }
  return {};
}

// In the order of the backward pass, the first step that writes the gradient of an activation overwrites it, and later
// ones add. Gradients of parameters add up over micro-batches.
void Program::find_first_writers() {
  std::vector<bool> written(graph_.tensors.size(), false);
  for (size_t k = lowered_.steps.size(); k-- > 0;) {
    for (TensorId id : lowered_.steps[k].gradient_writes) {
      const bool adds = graph_.tensor(id).role == Role::kParameter || written[static_cast<size_t>(id)];
      addresses_.steps[k].adds.push_back(adds);
      written[static_cast<size_t>(id)] = true;
    }
  }
}

// A step may overwrite the gradient of a parameter that no other node uses.
void Program::find_only_writers(const Layout& layout) {
  std::vector<int> uses(graph_.tensors.size(), 0);
  for (const Node& node : graph_.nodes) {
    for (TensorId id : node.parameters) ++uses[static_cast<size_t>(id)];
    for (TensorId id : node.inputs) ++uses[static_cast<size_t>(id)];
  }
  std::vector<Range> overwritten;
  for (size_t k = 0; k < lowered_.steps.size(); ++k) {
    for (TensorId id : lowered_.steps[k].overwrites) {
      const bool only = learns_[k] && uses[static_cast<size_t>(id)] == 1;
      addresses_.steps[k].overwrites.push_back(only);
      if (!only) continue;
      const auto* at = static_cast<const std::byte*>(addresses_.gradients[static_cast<size_t>(id)]);
      const size_t begin = static_cast<size_t>(at - gradients_) / size_of(backend_.real());
      overwritten.push_back({begin, begin + static_cast<size_t>(count_of(graph_.tensor(id).shape))});
    }
  }
  std::sort(overwritten.begin(), overwritten.end(), [](Range a, Range b) { return a.begin < b.begin; });
  overwritten.push_back({layout.count, layout.count});
  size_t end = 0;
  for (const Range& range : overwritten) {
    if (end < range.begin) added_.push_back({end, range.begin});
    end = range.end;
  }
}

Status Program::forward(size_t step, const RunContext& context, const std::atomic<bool>& abort) {
  if (abort.load(std::memory_order_relaxed)) return fail(ErrorCode::kCancelled, "the forward pass was aborted");
  if (step == 0) backend_.enter();
  LOCKSTEP_CHECK_OK(executable_->forward(step, context));
  if (pulse_ != nullptr) pulse_->beat();
  return {};
}

Status Program::backward(size_t step, const RunContext& context, const std::atomic<bool>& abort) {
  if (abort.load(std::memory_order_relaxed)) return fail(ErrorCode::kCancelled, "the backward pass was aborted");
  if (step + 1 == steps()) backend_.enter();
  if (!recomputation_.before.empty()) {
    for (size_t again : recomputation_.before[step]) LOCKSTEP_CHECK_OK(executable_->recompute(again, context));
  }
  if (learns_[step]) LOCKSTEP_CHECK_OK(executable_->backward(step, context));
  if (pulse_ != nullptr) pulse_->beat();
  return {};
}

void Program::clear_added() {
  const size_t width = size_of(backend_.real());
  for (const Range& range : added_) {
    backend_.clear(gradients_ + range.begin * width, (range.end - range.begin) * width);
  }
}

size_t Program::loss_bytes() const {
  return graph_.losses.size() * static_cast<size_t>(graph_.batch) * size_of(backend_.real());
}

void Program::read_losses(std::byte* to) const {
  const size_t bytes = loss_bytes() / graph_.losses.size();
  for (const WeightedLoss& loss : graph_.losses) {
    backend_.read(to, static_cast<const std::byte*>(data(loss.tensor)), bytes);
    to += bytes;
  }
}

double Program::sum_of_losses(const std::byte* losses, std::int64_t samples) const {
  double sum = 0;
  for (const WeightedLoss& loss : graph_.losses) {
    double part = 0;
    for (size_t i = 0; i < static_cast<size_t>(samples); ++i) part += real_at(losses, backend_.real(), i);
    sum += loss.weight * part;
    losses += loss_bytes() / graph_.losses.size();
  }
  return sum;
}

std::span<std::byte> Program::arena() {
  std::byte* begin = backend_.host(arena_->data());
  return begin == nullptr ? std::span<std::byte>() : std::span(begin, arena_->bytes());
}

}  // namespace lockstep::trainer::core
