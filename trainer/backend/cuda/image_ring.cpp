#include "trainer/backend/cuda/image_ring.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>

#include "trainer/backend/cuda/kernels/pixels.h"
#include "trainer/cuda/mutation.h"

namespace lockstep::trainer::cuda {

namespace {

constexpr size_t kValueBytes = sizeof(core::PixelValues);
static_assert(kValueBytes % core::kAlignment == 0);

}  // namespace

ImageRing::~ImageRing() {
  if (stream_ == nullptr) return;
  static_cast<void>(queue_.settle(queue_.mark()));
  if (queue_.hangs()) return;
  queue_.enter();
  give_back();
  for (const Slot& slot : slots_) {
    if (slot.arrived != nullptr) queue_.runtime().event_destroy(slot.arrived);
  }
  queue_.runtime().stream_destroy(stream_);
}

// The queue's work is done, and so are the copies that it waited for.
void ImageRing::give_back() {
  slot_bytes_ = 0;
  on_device_.reset();
  if (pinned_ != nullptr) queue_.keep(queue_.runtime().free_host(std::exchange(pinned_, nullptr)));
}

Status ImageRing::set_up() {
  const std::string where = "the GPU has no stream for images";
  if (stream_ == nullptr) {
    LOCKSTEP_CHECK_OK(
        queue_.status_of(queue_.runtime().stream_create_with_flags(&stream_, kCudaStreamNonBlocking), where));
  }
  for (Slot& slot : slots_) {
    if (slot.arrived != nullptr) continue;
    LOCKSTEP_CHECK_OK(
        queue_.status_of(queue_.runtime().event_create_with_flags(&slot.arrived, kCudaEventDisableTiming), where));
  }
  return {};
}

Status ImageRing::reserve(size_t pixels) {
  const size_t bytes = core::align_up(kValueBytes + pixels, core::kAlignment);
  if (bytes <= slot_bytes_) return {};
  queue_.enter();
  LOCKSTEP_CHECK_OK(set_up());
  Status grown = grow(bytes);
  if (!grown) give_back();
  return grown;
}

Status ImageRing::grow(size_t bytes) {
  static_cast<void>(queue_.settle(queue_.mark()));
  give_back();
  LOCKSTEP_CHECK_OK(queue_.status_of(queue_.runtime().malloc_host(&pinned_, kDepth * bytes),
                                     fmt::format("the host has no {} bytes of pinned memory", kDepth * bytes)));
  LOCKSTEP_TRY(on_device_, DeviceMemory::allocate(queue_, kDepth * bytes));
  static_cast<void>(queue_.settle(queue_.mark()));  // the copy stream does not wait for the zeros that it begins with
  for (size_t i = 0; i < kDepth; ++i) {
    slots_[i].pinned = static_cast<std::byte*>(pinned_) + i * bytes;
    slots_[i].on_device = on_device_->data() + i * bytes;
  }
  slot_bytes_ = bytes;
  return {};
}

void ImageRing::write(float* to, const std::uint8_t* from, size_t count, const core::PixelValues& values) {
  if (count == 0) return;
  if (!reserve(count).ok()) return queue_.keep(CudaError::kMemoryAllocation);
  Slot& slot = slots_[std::exchange(next_, (next_ + 1) % kDepth)];
  if (mutation() != Mutation::kReuseImages && !queue_.settle(slot.spread)) return;
  queue_.enter();
  std::memcpy(slot.pinned, values.data(), kValueBytes);
  std::memcpy(slot.pinned + kValueBytes, from, count);
  queue_.keep(queue_.runtime().memcpy_async(slot.on_device, slot.pinned, kValueBytes + count, CudaCopy::kHostToDevice,
                                            stream_));
  queue_.keep(queue_.runtime().event_record(slot.arrived, stream_));
  if (mutation() != Mutation::kSpreadUnawaited) {
    queue_.keep(queue_.runtime().stream_wait_event(queue_.stream(), slot.arrived, 0));
  }
  queue_.keep(spread_pixels(queue_.stream(), reinterpret_cast<const std::uint8_t*>(slot.on_device + kValueBytes),
                            reinterpret_cast<const float*>(slot.on_device), to, static_cast<std::int64_t>(count)));
  slot.spread = queue_.mark();
}

}  // namespace lockstep::trainer::cuda
