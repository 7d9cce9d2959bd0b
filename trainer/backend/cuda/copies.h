// Bfloat16 copies of a node's float32 tensors.
//
// With bfloat16 most kernels compute on activations of that type alone. Some tensors beside it are float32 in memory:
// inputs of the graph, as the loader writes them; outputs of the graph, as others read them; and parameters, which the
// optimizer changes in float32. The kernel then works on copies. What it reads is rounded before each forward pass, so
// no copy outlives a change of its parameters, and stays for the backward pass. What it writes is converted, and
// gradients are added, right after it.
#pragma once

#include <functional>
#include <memory>

#include "trainer/backend/cuda/kernel.h"

namespace lockstep::trainer::backend::cuda {

// What a bfloat16 kernel with `needs` needs with its copies.
Needs with_copies(const core::Graph& graph, const core::Node& node, Needs needs);

// The kernel that `make` makes on copies. `needs` are its own, and the bindings of `site` have the memory that
// with_copies() said. Errors are those of `make`.
Result<std::unique_ptr<Kernel>> make_on_copies(Site site, const Needs& needs,
                                               const std::function<Result<std::unique_ptr<Kernel>>(Site)>& make);

}  // namespace lockstep::trainer::backend::cuda
