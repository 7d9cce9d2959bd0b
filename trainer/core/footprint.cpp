#include "trainer/core/footprint.h"

#include "trainer/core/layout.h"
#include "trainer/core/memory_plan.h"
#include "trainer/core/tensor.h"

namespace lockstep::trainer::core {

size_t bytes_of_inputs(const Graph& graph, ElementType real) {
  size_t bytes = 0;
  for (TensorId id : graph.with_role(Role::kInput)) bytes += align_up(bytes_of(graph.tensor(id), real), kAlignment);
  return bytes;
}

Result<size_t> replica_bytes(const Graph& graph, Backend& backend, const Optimizer& optimizer, Recompute recompute) {
  LOCKSTEP_TRY(const Lowered lowered, backend.lower(graph, true));
  const size_t arena = plan_memory_of(graph, lowered, true, recompute).plan.bytes;
  size_t statistics = 0;
  for (TensorId id : graph.with_role(Role::kStatistic)) {
    statistics += static_cast<size_t>(count_of(graph.tensor(id).shape));
  }
  const size_t arenas = 2 + slots_of(optimizer.rule).size();  // parameters, gradients, slots
  return arena + bytes_of_inputs(graph, backend.real()) + 2 * statistics * sizeof(double) +  // committed and staged
         arenas * lay_out(graph).count * size_of(backend.real());
}

}  // namespace lockstep::trainer::core
