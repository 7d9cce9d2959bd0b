// The CPU backend: matrix products by oneDNN, the rest by own kernels (row_kernels.h), float32, on exactly `threads`
// threads.
#pragma once

#include <memory>

#include "trainer/backend/cpu/row_kernels.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::backend {

// kInvalid: `threads` is below 1, or the environment does not allow that many.
Result<std::unique_ptr<core::Backend>> make_cpu_backend(int threads,
                                                        const cpu::RowKernels& kernels = cpu::best_kernels());

}  // namespace lockstep::trainer::backend
