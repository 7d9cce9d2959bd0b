#include "trainer/backend/cuda/device_memory.h"

#include <fmt/format.h>

#include <cstdio>
#include <thread>

namespace lockstep::trainer::cuda {

namespace {

using Clock = std::chrono::steady_clock;

// Drivers tell nobody when the memory of a process that has ended is free.
constexpr std::chrono::milliseconds kBetweenLooks{50};

struct Room {
  size_t free = 0, all = 0;  // bytes
};

Room room_of(DeviceQueue& queue) {
  Room room;
  queue.keep(queue.runtime().mem_get_info(&room.free, &room.all));
  return room;
}

std::string in_words(const Room& room) {
  return fmt::format("{} of its {} MiB are free", room.free >> 20, room.all >> 20);
}

// Until so many bytes are free, or no wait can help.
void wait_for_room(DeviceQueue& queue, size_t bytes, std::chrono::milliseconds patience) {
  Room room = room_of(queue);
  if (patience <= patience.zero() || room.free >= bytes || room.all < queue.taken() + bytes) return;
  std::fprintf(stderr, "lockstep-trainer: waiting up to %g s for %zu MiB of the GPU's memory, of which %s\n",
               std::chrono::duration<double>(patience).count(), bytes >> 20, in_words(room).c_str());
  const auto end = Clock::now() + patience;
  while (room.free < bytes && Clock::now() < end && queue.health()) {
    std::this_thread::sleep_for(kBetweenLooks);
    room = room_of(queue);
  }
}

}  // namespace

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::allocate(DeviceQueue& queue, size_t bytes,
                                                             std::chrono::milliseconds patience) {
  queue.enter();
  void* begin = nullptr;
  const size_t rounded = core::align_up(std::max(bytes, size_t{1}), core::kAlignment);
  CudaError error = queue.runtime().malloc(&begin, rounded);
  if (error == CudaError::kMemoryAllocation) {
    wait_for_room(queue, rounded, patience);
    static_cast<void>(queue.runtime().get_last_error());
    error = queue.runtime().malloc(&begin, rounded);
  }
  if (error != CudaError::kSuccess) {
    return queue.status_of(error, fmt::format("the GPU has no room for {} bytes, {}", bytes, in_words(room_of(queue))))
        .error();
  }
  queue.fill(begin, 0, rounded);
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(queue, static_cast<std::byte*>(begin), bytes));
}

DeviceMemory::DeviceMemory(DeviceQueue& queue, std::byte* begin, size_t bytes)
    : queue_(queue), begin_(begin), bytes_(bytes) {
  queue_.take(bytes_);
}

DeviceMemory::~DeviceMemory() {
  if (queue_.hangs()) return;
  queue_.enter();
  queue_.keep(queue_.runtime().free(begin_));
  queue_.give_back(bytes_);
}

}  // namespace lockstep::trainer::cuda
