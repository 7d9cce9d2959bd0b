// What an error of NVIDIA's libraries means for the process that meets it.
#pragma once

#include "operator/base/result.h"
#include "trainer/backend/cuda/blas.h"
#include "trainer/backend/cuda/dnn.h"
#include "trainer/cuda/types.h"

namespace lockstep::trainer::cuda {

// kNotFound: this machine cannot run the program's kernels. kInternal: the program asked for what the library does not
// do, and would again. kExhausted: memory is short or the device failed; a new process may succeed. Not of a success.
ErrorCode code_of(CudaError error);
ErrorCode code_of(BlasStatus status);
ErrorCode code_of(DnnStatus status);
// The host or the GPU has too little memory for what was asked.
bool lacks_memory(DnnStatus status);

// Whether the device's work is lost, and every later call of the process fails with the same number.
bool device_lost(CudaError error);

}  // namespace lockstep::trainer::cuda
