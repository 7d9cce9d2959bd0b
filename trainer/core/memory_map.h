// When each block of a lowered graph is alive: values and gradients of activations, what steps keep, scratch. The
// planner (planner.h) then lays the blocks out.
#pragma once

#include <vector>

#include "trainer/core/backend.h"
#include "trainer/core/planner.h"
#include "trainer/core/recompute.h"

namespace lockstep::trainer::core {

// Blocks of one step, as indices into MemoryMap::blocks; -1: none.
struct StepBlocks {
  std::vector<int> keeps;
  int forward_scratch = -1;
  int backward_scratch = -1;
};

struct MemoryMap {
  std::vector<Lifetime> blocks;
  std::vector<int> values;     // by tensor: index into `blocks`; -1: none
  std::vector<int> gradients;  // the same for its gradient
  std::vector<StepBlocks> steps;
};

// The schedule: step k of N runs forward at position k and, if `trains`, backward at position 2N - 1 - k. A step that
// runs again does so at the position of the backward pass that it precedes. Graph::losses and Graph::outputs live to
// the end. `recomputation`: of the same lowered graph; empty unless `trains`.
MemoryMap map_memory(const Graph& graph, const Lowered& lowered, bool trains, const Recomputation& recomputation = {});

}  // namespace lockstep::trainer::core
