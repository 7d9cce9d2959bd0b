#include "trainer/backend/cuda/error_code.h"

namespace lockstep::trainer::cuda {

ErrorCode code_of(CudaError error) {
  switch (error) {
    case CudaError::kInsufficientDriver:
    case CudaError::kNoDevice:
    case CudaError::kNoKernelImageForDevice:
    case CudaError::kUnsupportedPtxVersion:
      return ErrorCode::kNotFound;
    case CudaError::kInvalidValue:
    case CudaError::kInvalidConfiguration:
    case CudaError::kInvalidDevice:
    case CudaError::kInvalidResourceHandle:
    case CudaError::kLaunchOutOfResources:
    case CudaError::kNotSupported:
      return ErrorCode::kInternal;
    default:
      return ErrorCode::kExhausted;
  }
}

ErrorCode code_of(BlasStatus status) {
  switch (status) {
    case BlasStatus::kNotInitialized:
    case BlasStatus::kAllocFailed:
    case BlasStatus::kExecutionFailed:
    case BlasStatus::kInternalError:
      return ErrorCode::kExhausted;
    default:
      return ErrorCode::kInternal;
  }
}

ErrorCode code_of(DnnStatus status) {
  if (status == DnnStatus::kVersionMismatch || status == DnnStatus::kLoadingFailed) return ErrorCode::kNotFound;
  const int number = static_cast<int>(status);
  if (number >= 3005 && number <= 3009) return ErrorCode::kNotFound;  // driver, runtime or GPU do not suit it
  if (lacks_memory(status) || status == DnnStatus::kInternalError) return ErrorCode::kExhausted;
  const int kind = number / 1000;
  return kind == 2 || kind == 3 || kind == 4 ? ErrorCode::kInternal : ErrorCode::kExhausted;
}

bool lacks_memory(DnnStatus status) {
  return status == DnnStatus::kHostAllocationFailed || status == DnnStatus::kDeviceAllocationFailed;
}

bool device_lost(CudaError error) {
  switch (static_cast<int>(error)) {
    case 214:  // an uncorrectable error of the memory
    case 220:  // of NVLink
    case 700:  // an illegal address
    case 702:  // the launch timed out
    case 710:  // an assertion of the kernel
    case 714:  // a hardware stack error
    case 715:  // an illegal instruction
    case 716:  // a misaligned address
    case 717:  // an invalid address space
    case 718:  // an invalid program counter
    case 719:  // a launch failure
    case 999:  // unknown
      return true;
    default:
      return false;
  }
}

}  // namespace lockstep::trainer::cuda
