// Which nodes `cpu` computes in one step, and their kernels.
#pragma once

#include <memory>
#include <vector>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

// All nodes in order. Together are
//  * a batch norm of images, then the sum with another tensor or none, then ReLU, ReLU6 or none;
//  * a ReLU of images and the max pooling after it;
// wherever only the next node of the run reads what a node writes.
std::vector<Run> runs_of(const core::Graph& graph);

Needs needs_of(const core::Graph& graph, const Run& run, const Team& team);
// The node of a run whose sizes its kernel loops over.
const core::Node& main_node(const core::Graph& graph, const Run& run);
// The site's node is main_node().
std::unique_ptr<Kernel> make_kernel(const Run& run, Site site);

}  // namespace lockstep::trainer::backend::cpu
