// The table of plans: what cuDNN chooses for each pass of the models' convolutions on each described GPU.
#pragma once

#include <string>

#include "operator/base/result.h"
#include "tests/trainer/backend/cuda/plans/described_gpu.h"
#include "tests/trainer/backend/cuda/plans/model_passes.h"

namespace lockstep::trainer::testing {

// cuDNN of the folder `libraries`, after its cuBLASLt as the backend opens them: cuDNN ends the process if it cannot
// find cuBLASLt. kNotFound: one is missing, or lacks a function.
Result<cuda::Dnn> open_real_dnn(const std::string& libraries);

// Plans all passes for all described GPUs, and returns table.txt. An error is that of the first pass without a plan.
Result<std::string> plan_table(const cuda::Dnn& dnn);

}  // namespace lockstep::trainer::testing
