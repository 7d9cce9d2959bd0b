// The oracle: every layer as its formula says, in double, one thread, no library. Slow, and meant to be read.
#pragma once

#include <memory>

#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

Result<std::unique_ptr<core::Backend>> make_ref_backend();

}  // namespace lockstep::trainer::backend
