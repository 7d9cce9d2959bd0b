// A backend for tests that behaves as a device does. It computes as `cpu`, on a thread of its own and as late as it
// may. No other thread can read or write its memory. It finds code that reads memory of a backend, or uses a result
// before it has waited. It also finds code that gives memory back while work on it is enqueued.
#pragma once

#include <memory>

#include "operator/base/result.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::testing {

// kInvalid: as backend::make_cpu_backend().
Result<std::unique_ptr<core::Backend>> make_late_backend(int threads);

}  // namespace lockstep::trainer::testing
