// The memory of a lowered graph: which values are computed again, when each block lives, and where it lies.
#pragma once

#include "trainer/core/backend.h"
#include "trainer/core/graph.h"
#include "trainer/core/memory_map.h"
#include "trainer/core/planner.h"
#include "trainer/core/recompute.h"

namespace lockstep::trainer::core {

struct PlannedMemory {
  Recomputation recomputation;
  MemoryMap map;
  MemoryPlan plan;
};

// kNorms tries each depth of plan_recomputation(), and none. It takes the one whose arena is smallest.
PlannedMemory plan_memory_of(const Graph& graph, const Lowered& lowered, bool trains, Recompute recompute);

}  // namespace lockstep::trainer::core
