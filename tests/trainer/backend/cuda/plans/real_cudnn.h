// cuDNN itself, for tests that use it where it is installed. It needs no GPU for what they ask of it.
#pragma once

#include <string>

#include "operator/base/result.h"
#include "trainer/backend/cuda/dnn.h"

namespace lockstep::trainer::testing {

// cuDNN of the folder `libraries`, after its cuBLASLt as the backend opens them: cuDNN ends the process if it cannot
// find cuBLASLt. kNotFound: one is missing, or lacks a function.
Result<cuda::Dnn> open_real_dnn(const std::string& libraries);

// Why a test has to do without cuDNN of that folder, as a sentence; empty: it need not.
std::string why_no_cudnn(const std::string& libraries);

}  // namespace lockstep::trainer::testing
