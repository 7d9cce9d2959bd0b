// What a communicator may offer besides comm::Communicator: sums of a GPU's memory between ranks, in place, in the
// order of the GPU's own work. Nothing passes through memory of the host. Only names types of CUDA, and includes none
// of it.
#pragma once

#include <cstddef>

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"

namespace lockstep::trainer::cuda {
struct CudaEvent;  // cuda/types.h
}  // namespace lockstep::trainer::cuda

namespace lockstep::trainer::comm {

// An all-reduce of GPU memory. The GPU adds when `after` has happened, perhaps while its owner's later work runs.
struct DeviceSum {
  void* data = nullptr;  // in and out: `count` elements of the GPU's memory, aligned for their type
  size_t count = 0;
  DataType type = DataType::kFloat32;
  // An event of the GPU that was recorded behind the work which writes `data`. It may be recorded again behind later
  // work of the same stream, as long as that work does not wait for this sum.
  cuda::CudaEvent* after = nullptr;
};

// The caller keeps `data` and `after`, and leaves `data` alone, until Communicator::wait() has returned without an
// error or abort() with true. After an abort that returns false the GPU may still use both: the process must end
// without releasing them. The work before `after` needs a deadline of its own: until it is done, the rank does not
// count as stalled.
class DeviceReducer {
 public:
  virtual ~DeviceReducer() = default;

  // Whether sums may be of memory of the GPU with this number (as the CUDA runtime of this process counts). Any thread.
  virtual bool reaches(int gpu) const = 0;

  // As Communicator::submit(), in one order with its operations; Communicator::wait() takes the ticket. A wait that
  // succeeds says that the GPU has written the sum and that no rank failed in it. kInvalid: `after` is null, or `data`
  // is, for a count above 0, or `data` is not aligned.
  virtual Result<Ticket> sum(const DeviceSum& operation) = 0;
};

}  // namespace lockstep::trainer::comm
