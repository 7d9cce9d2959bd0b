// The training state as checkpoints see it.
#pragma once

#include "operator/base/result.h"
#include "trainer/checkpoint/tensor.h"
#include "trainer/core/state.h"

namespace lockstep::trainer {

// Views; valid as long as the state lives.
Result<checkpoint::State> state_tensors(core::State& state);
checkpoint::StateBuffers state_buffers(core::State& state);

}  // namespace lockstep::trainer
