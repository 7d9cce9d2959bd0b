// Memory of a GPU that is given back when it is no longer used.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>

#include "trainer/backend/cuda/device_queue.h"
#include "trainer/core/backend.h"

namespace lockstep::trainer::cuda {

class DeviceMemory final : public core::Memory {
 public:
  // Memory whose bytes become zero in the order of the queue, which must outlive it. Waits up to `patience` for memory
  // that another process holds, such as its predecessor. kExhausted: there is not enough.
  static Result<std::unique_ptr<DeviceMemory>> allocate(DeviceQueue& queue, size_t bytes,
                                                        std::chrono::milliseconds patience = {});
  // Waits for the device's work, as the runtime does. A device that hangs keeps the memory.
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* data() const override { return begin_; }
  size_t bytes() const override { return bytes_; }

 private:
  DeviceMemory(DeviceQueue& queue, std::byte* begin, size_t bytes);

  DeviceQueue& queue_;
  std::byte* const begin_;
  const size_t bytes_;
};

// Memory that one piece of work of the queue uses at a time, and that the next may overwrite.
class DeviceScratch {
 public:
  // The queue must outlive it.
  explicit DeviceScratch(DeviceQueue& queue) : queue_(queue) {}
  // At least so many bytes are at data() from now on. To grow waits for the device's work. kExhausted: there is not
  // enough memory, and nothing stays reserved.
  Status reserve(size_t bytes) {
    if (memory_ && bytes <= memory_->bytes()) return {};
    memory_.reset();  // first: there may be no room for both
    LOCKSTEP_TRY(memory_, DeviceMemory::allocate(queue_, std::max(bytes, size_t{1} << 16)));
    return {};
  }
  void* data() const { return memory_ ? memory_->data() : nullptr; }  // null: nothing was reserved

 private:
  DeviceQueue& queue_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace lockstep::trainer::cuda
