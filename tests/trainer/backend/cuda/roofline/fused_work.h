// The same work with fusions that the backend does not have: bias and ReLU in the kernel of a convolution.
#pragma once

#include <vector>

#include "tests/trainer/backend/cuda/roofline/node_work.h"

namespace lockstep::trainer::testing {

// As works_of_nodes().
std::vector<std::vector<Work>> fused_works_of_nodes(const core::Graph& graph, backend::Precision precision);

}  // namespace lockstep::trainer::testing
