// The same work with the fusions that the backend does not have: a batch norm, the sum and the ReLU that follow it as
// one layer whose statistics take one pass, and bias and ReLU in the kernel of a convolution.
#pragma once

#include <vector>

#include "tests/trainer/backend/cuda/roofline/node_work.h"

namespace lockstep::trainer::testing {

// As works_of_nodes(). The work of a fused layer is its first node's, and its other nodes have none.
std::vector<std::vector<Work>> fused_works_of_nodes(const core::Graph& graph, backend::Precision precision);

}  // namespace lockstep::trainer::testing
