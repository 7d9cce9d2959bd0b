// What a replica takes of its backend's memory, before any of it is taken.
#pragma once

#include <cstddef>

#include "operator/base/result.h"
#include "trainer/core/backend.h"
#include "trainer/core/graph.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/recompute.h"

namespace lockstep::trainer::core {

// Of a program's inputs: one after the other, each aligned to kAlignment.
size_t bytes_of_inputs(const Graph& graph, ElementType real);

// Of Replica::create(), its synchronizer's part excepted. Kernels may take more when they run. Errors are those of
// Backend::lower().
Result<size_t> replica_bytes(const Graph& graph, Backend& backend, const Optimizer& optimizer, Recompute recompute);

}  // namespace lockstep::trainer::core
