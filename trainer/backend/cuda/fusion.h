// Which nodes the CUDA backend computes in one step.
#pragma once

#include <vector>

#include "trainer/backend/node_steps.h"
#include "trainer/backend/norm_block.h"

namespace lockstep::trainer::backend::cuda {

// All nodes in order. Together are a batch norm, the sum with another tensor or none, and ReLU, ReLU6 or none, wherever
// only the next node reads what a node writes (norm_block.h). `rounds`: activations are bfloat16. A node then stays by
// itself if it would need copies (copies.h).
std::vector<Run> runs_of(const core::Graph& graph, bool rounds);

}  // namespace lockstep::trainer::backend::cuda
