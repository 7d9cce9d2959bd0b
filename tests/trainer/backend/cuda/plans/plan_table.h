// The table of plans: what cuDNN chooses for each pass of the models' convolutions on each described GPU.
#pragma once

#include <string>

#include "operator/base/result.h"
#include "tests/trainer/backend/cuda/plans/described_gpu.h"
#include "tests/trainer/backend/cuda/plans/model_passes.h"

namespace lockstep::trainer::testing {

// Plans all passes for all described GPUs, and returns table.txt. An error is that of the first pass without a plan.
Result<std::string> plan_table(const cuda::Dnn& dnn);

}  // namespace lockstep::trainer::testing
