// What a model's speed is a share of: how fast this rank's backend multiplies matrices.
#pragma once

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer {

// Multiplications and additions a second: the best of some products of two square matrices, on the backend's threads
// and in its precision. The matrices grow from 512 rows until a product takes 30 ms or the memory ends: about two
// seconds on a CPU. The backend has nothing else to do meanwhile. Errors are the backend's; kExhausted: the memory does
// not hold the smallest matrices.
Result<double> peak_flops(core::Backend& backend, const lockstep::Clock& clock);

}  // namespace lockstep::trainer
