// The training state as checkpoints see it.
#pragma once

#include "operator/base/result.h"
#include "trainer/checkpoint/tensor.h"
#include "trainer/core/state.h"
#include "trainer/torch_form.h"

namespace lockstep::trainer {

// Views; valid as long as the state lives. Files have parameters and statistics in `forms`.
Result<checkpoint::State> state_tensors(core::State& state, const StoredForms& forms);
checkpoint::StateBuffers state_buffers(core::State& state, const StoredForms& forms);

}  // namespace lockstep::trainer
