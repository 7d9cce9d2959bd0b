// Images on their way to the device, as bytes. One copy takes them from a pinned buffer to memory beside the program,
// on a stream for these copies alone. So they cross while the queue's stream computes. That stream waits for the copy's
// event, and a kernel on it writes the numbers that the bytes stand for.
//
//   write(k)  ->  [ pinned buffer ] ==copy stream==> [ device buffer ] --event, kernel on the queue's stream--> inputs
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "operator/base/result.h"
#include "trainer/backend/cuda/device_memory.h"
#include "trainer/backend/cuda/device_queue.h"
#include "trainer/core/pixels.h"

namespace lockstep::trainer::cuda {

// One thread at a time, that of the queue.
class ImageRing {
 public:
  // Writes that are on their way at a time. A step has two micro-batches in flight, and the next one ahead.
  static constexpr size_t kDepth = 3;

  // The queue must outlive it.
  explicit ImageRing(DeviceQueue& queue) : queue_(queue) {}
  // Waits for its work. If the device hangs it gives nothing back.
  ~ImageRing();
  ImageRing(const ImageRing&) = delete;
  ImageRing& operator=(const ImageRing&) = delete;

  // Writes of so many bytes find memory. To grow waits for the device's work. kExhausted: there is not enough memory,
  // and nothing stays reserved.
  Status reserve(size_t pixels);
  // Enqueues a write to memory of the device in the order of the queue; as core::Backend::write_pixels(). `from` and
  // `values` may be used again as soon as this returns. Waits for the kernel of the write kDepth writes ago. An error
  // is kept for the next wait.
  void write(float* to, const std::uint8_t* from, size_t count, const core::PixelValues& values);

 private:
  // A pinned buffer and one of the device, (values, pixels). Free when the work before the mark is done.
  struct Slot {
    std::byte* pinned = nullptr;
    std::byte* on_device = nullptr;
    CudaEvent* arrived = nullptr;
    core::Mark spread;
  };

  Status set_up();
  Status grow(size_t bytes);
  void give_back();

  DeviceQueue& queue_;
  CudaStream* stream_ = nullptr;
  std::array<Slot, kDepth> slots_;
  size_t next_ = 0;        // slot
  size_t slot_bytes_ = 0;  // of each buffer; 0: there are none
  void* pinned_ = nullptr;
  std::unique_ptr<DeviceMemory> on_device_;
};

}  // namespace lockstep::trainer::cuda
