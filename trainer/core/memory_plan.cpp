#include "trainer/core/memory_plan.h"

#include <utility>

namespace lockstep::trainer::core {

namespace {

PlannedMemory plan_with(const Graph& graph, const Lowered& lowered, bool trains, Recomputation recomputation) {
  PlannedMemory planned{.recomputation = std::move(recomputation), .map = {}, .plan = {}};
  planned.map = map_memory(graph, lowered, trains, planned.recomputation);
  planned.plan = plan_memory(planned.map.blocks);
  return planned;
}

}  // namespace

PlannedMemory plan_memory_of(const Graph& graph, const Lowered& lowered, bool trains, Recompute recompute) {
  PlannedMemory best = plan_with(graph, lowered, trains, {});
  if (!trains || recompute == Recompute::kNothing) return best;
  Recomputation all = plan_recomputation(graph, lowered, static_cast<int>(lowered.steps.size()));
  if (recompute == Recompute::kAll) return plan_with(graph, lowered, trains, std::move(all));
  for (int depth = 1;; ++depth) {
    PlannedMemory planned = plan_with(graph, lowered, trains, plan_recomputation(graph, lowered, depth));
    const bool last = planned.recomputation.steps == all.steps;  // no row is longer
    if (planned.plan.bytes < best.plan.bytes) best = std::move(planned);
    if (last) return best;
  }
}

}  // namespace lockstep::trainer::core
