#include "trainer/backend/cuda/device_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "trainer/backend/cuda/error_code.h"
#include "trainer/backend/cuda/kernels/embedding.h"
#include "trainer/cuda/mutation.h"

namespace lockstep::trainer::cuda {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kEager(200);  // a wait asks without a pause for so long
constexpr std::chrono::microseconds kPause(50);

// The device that this thread has set; -1: none.
thread_local int device_of_thread = -1;

}  // namespace

Result<std::unique_ptr<DeviceQueue>> DeviceQueue::create(const CudaRuntime& runtime, int device,
                                                         std::chrono::milliseconds deadline) {
  std::unique_ptr<DeviceQueue> queue(new DeviceQueue(runtime, device, deadline));
  LOCKSTEP_CHECK_OK(queue->set_up());
  return queue;
}

Status DeviceQueue::set_up() {
  landings_.resize(kMostLandings);
  device_of_thread = -1;
  CudaDeviceProperties properties{};
  const std::string where = fmt::format("GPU {} cannot be used", device_);
  LOCKSTEP_CHECK_OK(status_of(runtime_.set_device(device_), where));
  device_of_thread = device_;
  LOCKSTEP_CHECK_OK(status_of(runtime_.get_device_properties(&properties, device_), where));
  properties.name[sizeof properties.name - 1] = '\0';
  device_name_ = properties.name;
  LOCKSTEP_CHECK_OK(status_of(runtime_.stream_create_with_flags(&stream_, kCudaStreamNonBlocking), where));
  for (CudaEvent*& event : events_) {
    LOCKSTEP_CHECK_OK(status_of(runtime_.event_create_with_flags(&event, kCudaEventDisableTiming), where));
  }
  void* ring = nullptr;
  LOCKSTEP_CHECK_OK(status_of(runtime_.malloc_host(&ring, kRingBytes), where));
  ring_ = static_cast<std::byte*>(ring);
  return {};
}

DeviceQueue::~DeviceQueue() {
  if (stream_ != nullptr) static_cast<void>(wait(mark()));
  if (hangs_) return;
  enter();
  for (CudaEvent* event : events_) {
    if (event != nullptr) runtime_.event_destroy(event);
  }
  if (stream_ != nullptr) runtime_.stream_destroy(stream_);
  if (ring_ != nullptr) runtime_.free_host(ring_);
}

void DeviceQueue::enter() const {
  if (device_of_thread == device_) return;
  if (runtime_.set_device(device_) == CudaError::kSuccess) device_of_thread = device_;
}

void DeviceQueue::keep(CudaError error) {
  if (error != CudaError::kSuccess) fail_device(runtime_.get_error_string(error));
}

Status DeviceQueue::status_of(CudaError error, const std::string& where) {
  if (error == CudaError::kSuccess) return {};
  if (device_lost(error)) {
    keep(error);
    return *failure_;
  }
  return fail(code_of(error),
              fmt::format("{}: {} (CUDA error {})", where, runtime_.get_error_string(error), static_cast<int>(error)));
}

Status DeviceQueue::health() {
  enter();
  if (const CudaError answer = runtime_.stream_query(stream_); device_lost(answer)) keep(answer);
  if (failure_) return *failure_;
  return {};
}

void DeviceQueue::fail_device(const std::string& why) {
  if (failure_) return;
  failure_ = fail(ErrorCode::kExhausted,
                  fmt::format("GPU {} ({}) failed: {}; the process must start again, and the kernel's log may say more",
                              device_, device_name_, why));
}

void DeviceQueue::fill(void* to, int byte, size_t bytes) {
  if (bytes == 0) return;
  enter();
  keep(runtime_.memset_async(to, byte, bytes, stream()));
}

void DeviceQueue::write(void* to, const void* from, size_t bytes) {
  enter();
  if (lands_in(from, bytes)) static_cast<void>(wait_until(mark().number));
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kPieceBytes);
    std::byte* pinned = room(piece);
    if (pinned == nullptr) return;
    std::memcpy(pinned, in, piece);
    keep(runtime_.memcpy_async(out, pinned, piece, CudaCopy::kHostToDevice, stream()));
    land({.kind = Landing::Kind::kWritten});
    out += piece;
    in += piece;
    bytes -= piece;
  }
}

void DeviceQueue::read(void* to, const void* from, size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kPieceBytes);
    fetch({.kind = Landing::Kind::kRead, .to = out, .count = piece}, in);
    out += piece;
    in += piece;
    bytes -= piece;
  }
}

void DeviceQueue::gather(core::RoundingFlags* to, const std::int64_t* from) {
  fetch({.kind = Landing::Kind::kFlags, .to = to, .count = 2 * sizeof *from}, from);
}

void DeviceQueue::check_index(const core::Node& node, std::int64_t limit, const std::uint64_t* from) {
  fetch({.kind = Landing::Kind::kIndex, .count = sizeof *from, .node = &node, .limit = limit}, from);
}

void DeviceQueue::fetch(Landing landing, const void* from) {
  enter();
  std::byte* pinned = room(landing.count);
  if (pinned == nullptr) return;
  landing.bytes = pinned;
  keep(runtime_.memcpy_async(pinned, from, landing.count, CudaCopy::kDeviceToHost, stream()));
  land(landing);
}

// Bytes of the ring for the landing that follows. Waits for the oldest landings if there is none. Null: the device
// failed.
std::byte* DeviceQueue::room(size_t bytes) {
  const size_t rounded = core::align_up(bytes, core::kAlignment);
  if (const size_t left = kRingBytes - ring_end_ % kRingBytes; left < rounded) ring_end_ += left;
  const size_t bytes_of_ring = mutation() == Mutation::kReuseRing ? SIZE_MAX : kRingBytes;
  while (ring_end_ + rounded - ring_begin_ > bytes_of_ring || end_landing_ - first_landing_ == kMostLandings) {
    if (first_landing_ == end_landing_) {
      ring_begin_ = ring_end_;
      continue;
    }
    const std::uint64_t oldest = landings_[first_landing_ % kMostLandings].mark;
    if (oldest > marked_) static_cast<void>(mark());
    if (!wait_until(oldest)) return nullptr;
  }
  std::byte* begin = ring_ + ring_end_ % kRingBytes;
  ring_end_ += rounded;
  return begin;
}

void DeviceQueue::land(Landing landing) {
  landing.mark = marked_ + 1;
  landing.end = ring_end_;
  landings_[end_landing_++ % kMostLandings] = landing;
}

void DeviceQueue::land_until(std::uint64_t mark) {
  while (first_landing_ < end_landing_) {
    const Landing& landing = landings_[first_landing_ % kMostLandings];
    if (landing.mark > mark) return;
    touch_down(landing);
    ring_begin_ = landing.end;
    ++first_landing_;
  }
}

void DeviceQueue::touch_down(const Landing& landing) {
  switch (landing.kind) {
    case Landing::Kind::kWritten:
      return;
    case Landing::Kind::kRead:
      std::memcpy(landing.to, landing.bytes, landing.count);
      return;
    case Landing::Kind::kFlags: {
      core::RoundingFlags found;
      std::memcpy(&found.overflow, landing.bytes, sizeof found.overflow);
      std::memcpy(&found.not_finite, landing.bytes + sizeof found.overflow, sizeof found.not_finite);
      auto& flags = *static_cast<core::RoundingFlags*>(landing.to);
      flags.overflow |= found.overflow;
      flags.not_finite |= found.not_finite;
      return;
    }
    case Landing::Kind::kIndex: {
      std::uint64_t found = 0;
      std::memcpy(&found, landing.bytes, sizeof found);
      if (found == kNoBadIndex || data_error_) return;
      data_error_ = fail(ErrorCode::kCorrupt,
                         fmt::format("layer '{}': the index {} of row {} is not in [0, {})", landing.node->name,
                                     static_cast<std::int32_t>(found & 0xffffffffU), found >> 32, landing.limit));
      return;
    }
  }
}

// Whether a read that is on its way writes there.
bool DeviceQueue::lands_in(const void* begin, size_t bytes) const {
  const auto* from = static_cast<const std::byte*>(begin);
  for (std::uint64_t i = first_landing_; i < end_landing_; ++i) {
    const Landing& landing = landings_[i % kMostLandings];
    const auto* to = static_cast<const std::byte*>(landing.to);
    if (to != nullptr && to < from + bytes && from < to + landing.count) return true;
  }
  return false;
}

core::Mark DeviceQueue::mark() {
  if (!unmarked_) return {marked_};
  enter();
  ++marked_;
  keep(runtime_.event_record(event_of(marked_), stream_));
  unmarked_ = false;
  return {marked_};
}

bool DeviceQueue::done(std::uint64_t mark) {
  if (mark <= done_) return true;
  if (failure_) return false;
  enter();
  const CudaError answer =
      mutation() == Mutation::kLandUnasked ? CudaError::kSuccess : runtime_.event_query(event_of(mark));
  if (answer == CudaError::kNotReady) return false;
  keep(answer);
  if (failure_) return false;
  done_ = mark;
  land_until(mark);
  return true;
}

bool DeviceQueue::reached(core::Mark mark) {
  return done(mark.number);
}

// False: the device failed.
bool DeviceQueue::wait_until(std::uint64_t mark) {
  const Clock::time_point start = Clock::now();
  while (!done(mark)) {
    if (failure_) return false;
    const auto waited = Clock::now() - start;
    if (waited > deadline_) {
      hangs_ = true;
      fail_device(fmt::format("its work is not done after {:g} s", std::chrono::duration<double>(deadline_).count()));
      return false;
    }
    if (waited < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
  return true;
}

Status DeviceQueue::wait(core::Mark mark) {
  static_cast<void>(wait_until(mark.number));
  if (failure_) return *failure_;
  if (data_error_) {
    Error error = *std::move(data_error_);
    data_error_.reset();
    return error;
  }
  return {};
}

}  // namespace lockstep::trainer::cuda
