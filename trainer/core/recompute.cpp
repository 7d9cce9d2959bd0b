#include "trainer/core/recompute.h"

#include <algorithm>
#include <utility>

namespace lockstep::trainer::core {

namespace {

constexpr size_t kNoStep = static_cast<size_t>(-1);

class RecomputationPlan {
 public:
  RecomputationPlan(const Graph& graph, const Lowered& lowered)
      : graph_(graph),
        lowered_(lowered),
        read_later_(graph.tensors.size(), false),
        stays_(graph.tensors.size(), false),
        length_(graph.tensors.size(), 0),
        writer_(graph.tensors.size(), kNoStep) {
    for (const Step& step : lowered.steps) {
      for (TensorId id : step.backward_reads) read_later_[at(id)] = true;
    }
    for (const WeightedLoss& loss : graph.losses) stays_[at(loss.tensor)] = true;
    for (const NamedOutput& output : graph.outputs) stays_[at(output.tensor)] = true;
  }

  Recomputation plan(int depth) {
    const std::vector<Step>& steps = lowered_.steps;
    for (size_t k = 0; k < steps.size(); ++k) choose(k, depth);
    Recomputation result{.before = std::vector<std::vector<size_t>>(steps.size())};
    for (size_t k = steps.size(); k-- > 0;) {
      for (TensorId id : steps[k].backward_reads) recompute(id, result.before[k]);
      result.steps += result.before[k].size();
    }
    return result;
  }

 private:
  static size_t at(TensorId id) { return static_cast<size_t>(id); }

  void choose(size_t k, int depth) {
    const Step& step = lowered_.steps[k];
    if (!step.cheap || step.gradient_reads.empty() || step.writes.size() != 1 || stays_[at(step.writes[0])]) return;
    int longest = 0;
    for (TensorId id : step.reads) {
      const bool there = graph_.tensor(id).role != Role::kActivation || length_[at(id)] > 0 || read_later_[at(id)];
      if (!there) return;
      longest = std::max(longest, length_[at(id)]);
    }
    if (longest >= depth) return;
    length_[at(step.writes[0])] = longest + 1;
    writer_[at(step.writes[0])] = k;
  }

  // Once for each value: it is there for the rest of the backward pass then. The recursion is as deep as `depth`.
  void recompute(TensorId id, std::vector<size_t>& order) {
    const size_t step = std::exchange(writer_[at(id)], kNoStep);
    if (step == kNoStep) return;
    for (TensorId read : lowered_.steps[step].reads) recompute(read, order);
    order.push_back(step);
  }

  const Graph& graph_;
  const Lowered& lowered_;
  std::vector<bool> read_later_;  // by tensor: in the backward pass
  std::vector<bool> stays_;
  std::vector<int> length_;     // by tensor: dropped steps in a row up to its writer; 0: it is not dropped
  std::vector<size_t> writer_;  // by tensor: the step that writes it again, until that is planned
};

}  // namespace

Recomputation plan_recomputation(const Graph& graph, const Lowered& lowered, int depth) {
  return RecomputationPlan(graph, lowered).plan(depth);
}

}  // namespace lockstep::trainer::core
