// What the backend `cuda` computes and moves for each layer of a graph, read off trainer/backend/cuda/ops and its
// kernels.
#pragma once

#include <vector>

#include "tests/trainer/backend/cuda/roofline/roofline.h"
#include "trainer/backend/cuda/precision.h"
#include "trainer/core/graph.h"

namespace lockstep::trainer::testing {

// Of one micro-batch, by node: its forward pass and, if it has one, its backward pass. Counted are sums of products, as
// core::flops_of() counts them, and each tensor once for each kernel that reads or writes it. Copies in the other
// precision are of a kind of their own. The work of nodes that are computed in one step is the first one's.
std::vector<std::vector<Work>> works_of_nodes(const core::Graph& graph, backend::Precision precision);

// By node and input: whether a later node has written the gradient of the input before, so that this one adds to it.
std::vector<std::vector<bool>> additions_of(const core::Graph& graph);

}  // namespace lockstep::trainer::testing
