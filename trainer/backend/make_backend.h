// The backends by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

// "cpu" and "ref".
const std::vector<std::string>& backend_names();

// `threads` compute one micro-batch; `ref` always uses one. kInvalid: no backend of that name, or the environment
// (OMP_THREAD_LIMIT) does not allow that many threads.
Result<std::unique_ptr<core::Backend>> make_backend(const std::string& name, int threads);

}  // namespace lockstep::trainer::backend
