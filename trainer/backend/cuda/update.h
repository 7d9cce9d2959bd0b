// Enqueues an optimizer's update, one rule after the other as trainer/optim has them for the host.
#pragma once

#include <cstdint>

#include "operator/base/result.h"
#include "trainer/backend/cuda/device_queue.h"
#include "trainer/core/optimizer.h"

namespace lockstep::trainer::cuda {

// Memory of the device that an update works with.
struct UpdateMemory {
  std::uint64_t* digest = nullptr;  // gets the sum of the digests of parameters and slots
  double* norms = nullptr;          // two
  void* scratch = nullptr;          // update_scratch() bytes, aligned to 8
};

// Bytes of UpdateMemory::scratch.
size_t update_scratch(const core::Optimizer& optimizer, const core::Layout& layout);

// Never waits. An error names the segment, or the GPU if its earlier work failed.
Status enqueue_update(DeviceQueue& queue, const core::Optimizer& optimizer, const core::Update& update,
                      const UpdateMemory& memory);

}  // namespace lockstep::trainer::cuda
