// The oracle: every layer as its formula says, in double, one thread, no library. Slow, and meant to be read.
#pragma once

#include <memory>

#include "trainer/backend/dimensions.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

Result<std::unique_ptr<core::Backend>> make_ref_backend();

namespace ref {
std::unique_ptr<core::Kernel> make_kernel(const core::Graph& graph, const core::Node& node, core::Bindings bindings);
}

}  // namespace lockstep::trainer::backend
