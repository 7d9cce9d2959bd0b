// The activity of a communicator, for a watcher of hangs. The communicator's own thread writes, any thread reads at any
// time, and none waits. Each number was true at some moment, but two of them may be of different moments. Once a
// communicator is stuck, all its numbers are of one moment.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::trainer::comm {

enum class Stage : std::uint8_t {
  kIdle,           // no collective is under way
  kReduceScatter,  // of an all-reduce, large
  kAllGather,      // of an all-reduce, large
  kExchange,       // of an all-reduce, small: every rank gets every rank's block
  kBroadcast,      // also of a hand-on along the ring
};

struct Activity {
  std::uint64_t sequence = 0;  // of the collective under way, or of the last one that ended; 0: none has begun
  Stage stage = Stage::kIdle;
  std::uint64_t sent = 0, received = 0;  // bytes given to and taken from the links since they were made
  // How long bytes have travelled since then, over all collectives that have ended. A collective counts from the first
  // bytes of the previous rank on; over NCCL, from when both ranks have submitted it and this rank's GPU has its own.
  std::uint64_t travelling_ns = 0;
  int waits_for_bytes_of = -1;  // the rank whose bytes were missing when it last looked; -1: none were
  int waits_for_room_at = -1;   // the rank that has accepted none of the bytes left to send; -1: none

  bool operator==(const Activity&) const = default;
};

// One writer.
class PublishedActivity {
 public:
  void publish(const Activity& activity) {
    sequence_.store(activity.sequence, std::memory_order_relaxed);
    stage_.store(activity.stage, std::memory_order_relaxed);
    sent_.store(activity.sent, std::memory_order_relaxed);
    received_.store(activity.received, std::memory_order_relaxed);
    travelling_ns_.store(activity.travelling_ns, std::memory_order_relaxed);
    bytes_of_.store(activity.waits_for_bytes_of, std::memory_order_relaxed);
    room_at_.store(activity.waits_for_room_at, std::memory_order_relaxed);
  }
  Activity read() const {
    return {.sequence = sequence_.load(std::memory_order_relaxed),
            .stage = stage_.load(std::memory_order_relaxed),
            .sent = sent_.load(std::memory_order_relaxed),
            .received = received_.load(std::memory_order_relaxed),
            .travelling_ns = travelling_ns_.load(std::memory_order_relaxed),
            .waits_for_bytes_of = bytes_of_.load(std::memory_order_relaxed),
            .waits_for_room_at = room_at_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<Stage> stage_{Stage::kIdle};
  std::atomic<std::uint64_t> sent_{0}, received_{0}, travelling_ns_{0};
  std::atomic<int> bytes_of_{-1}, room_at_{-1};
};

}  // namespace lockstep::trainer::comm
