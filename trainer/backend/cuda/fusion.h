// Which nodes the CUDA backend computes in one step.
#pragma once

#include <vector>

#include "trainer/backend/node_steps.h"
#include "trainer/backend/norm_block.h"

namespace lockstep::trainer::backend::cuda {

// All nodes in order. A batch norm is together with the sum and the activation that follow it, where norm_block.h
// allows it. `rounds`: activations are bfloat16. A node then stays by itself if it would need copies (copies.h).
std::vector<Run> runs_of(const core::Graph& graph, bool rounds);

}  // namespace lockstep::trainer::backend::cuda
