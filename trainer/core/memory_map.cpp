#include "trainer/core/memory_map.h"

#include <algorithm>
#include <utility>

namespace lockstep::trainer::core {

namespace {

class Mapper {
 public:
  Mapper(const Graph& graph, const Lowered& lowered, bool trains, const Recomputation& recomputation)
      : graph_(graph),
        lowered_(lowered),
        trains_(trains),
        recomputation_(recomputation),
        end_(2 * static_cast<int>(lowered.steps.size())) {}

  MemoryMap map() {
    map_.values.assign(graph_.tensors.size(), -1);
    map_.gradients.assign(graph_.tensors.size(), -1);
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (graph_.tensors[i].role != Role::kActivation) continue;
      if (lowered_.value_bytes[i] > 0) map_.values[i] = add(lowered_.value_bytes[i]);
      if (trains_ && lowered_.gradient_bytes[i] > 0) map_.gradients[i] = add(lowered_.gradient_bytes[i]);
    }
    recomputed_.assign(map_.values.size(), false);
    for (const std::vector<size_t>& steps : recomputation_.before) {
      for (size_t step : steps) recomputed_[static_cast<size_t>(lowered_.steps[step].writes[0])] = true;
    }
    for (size_t k = 0; k < lowered_.steps.size(); ++k) {
      map_step(lowered_.steps[k], static_cast<int>(k), end_ - 1 - static_cast<int>(k));
    }
    for (size_t k = 0; k < recomputation_.before.size(); ++k) {
      for (size_t step : recomputation_.before[k]) map_recomputed(step, end_ - 1 - static_cast<int>(k));
    }
    for (const WeightedLoss& loss : graph_.losses) touch(map_.values, loss.tensor, end_);
    for (const NamedOutput& output : graph_.outputs) touch(map_.values, output.tensor, end_);
    return std::move(map_);
  }

 private:
  void map_step(const Step& step, int forward, int backward) {
    for (TensorId id : step.reads) touch(map_.values, id, forward);
    for (TensorId id : step.writes) touch(map_.values, id, forward);
    StepBlocks blocks;
    for (size_t bytes : step.keeps) {
      blocks.keeps.push_back(add(bytes));
      extend(blocks.keeps.back(), forward);
      if (trains_) extend(blocks.keeps.back(), backward);
    }
    if (step.forward_scratch > 0) extend(blocks.forward_scratch = add(step.forward_scratch), forward);
    if (trains_) {
      for (TensorId id : step.backward_reads) touch_later(id, backward);
      for (TensorId id : step.gradient_reads) touch(map_.gradients, id, backward);
      for (TensorId id : step.gradient_writes) touch(map_.gradients, id, backward);
      if (step.backward_scratch > 0) extend(blocks.backward_scratch = add(step.backward_scratch), backward);
    }
    map_.steps.push_back(std::move(blocks));
  }

  void map_recomputed(size_t k, int position) {
    const Step& step = lowered_.steps[k];
    for (TensorId id : step.reads) touch_later(id, position);
    for (TensorId id : step.writes) touch_later(id, position);
    if (const int scratch = map_.steps[k].forward_scratch; scratch >= 0) extend_again(scratch, position);
  }

  int add(size_t bytes) {
    map_.blocks.push_back({.bytes = bytes, .span = never(), .again = never()});
    return static_cast<int>(map_.blocks.size()) - 1;
  }
  Span never() const { return {.first = end_, .last = -1}; }
  void touch(const std::vector<int>& of, TensorId id, int position) {
    if (int block = of[static_cast<size_t>(id)]; block >= 0) extend(block, position);
  }
  // `position` is in the backward pass. A value that its step writes again lives from then on; others lived until now.
  void touch_later(TensorId id, int position) {
    const int block = map_.values[static_cast<size_t>(id)];
    if (block < 0) return;
    recomputed_[static_cast<size_t>(id)] ? extend_again(block, position) : extend(block, position);
  }
  void extend(int block, int position) { extend(map_.blocks[static_cast<size_t>(block)].span, position); }
  void extend_again(int block, int position) { extend(map_.blocks[static_cast<size_t>(block)].again, position); }
  static void extend(Span& span, int position) {
    span.first = std::min(span.first, position);
    span.last = std::max(span.last, position);
  }

  const Graph& graph_;
  const Lowered& lowered_;
  const bool trains_;
  const Recomputation& recomputation_;
  std::vector<bool> recomputed_;  // by tensor
  const int end_;
  MemoryMap map_;
};

}  // namespace

MemoryMap map_memory(const Graph& graph, const Lowered& lowered, bool trains, const Recomputation& recomputation) {
  return Mapper(graph, lowered, trains, recomputation).map();
}

}  // namespace lockstep::trainer::core
