// The work of one GPU in the order of the calls. It is a stream, marks in it, and copies between the device and memory
// of the host that need not be pinned. They pass through a pinned ring, so that no copy waits for the stream.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/backend.h"
#include "trainer/cuda/runtime.h"

namespace lockstep::trainer::cuda {

// One thread at a time. After the first error of the device (not of the data) nothing of it can be used any longer, and
// each wait returns that error.
class DeviceQueue {
 public:
  static constexpr std::chrono::seconds kDeadline{120};  // of each wait: work takes milliseconds

  // Errors are those of status_of(). kExhausted: memory is short, or the device does not answer.
  static Result<std::unique_ptr<DeviceQueue>> create(const CudaRuntime& runtime, int device,
                                                     std::chrono::milliseconds deadline = kDeadline);
  // Waits for all work. After a wait that met its deadline it gives nothing back: the runtime would wait for ever.
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  const CudaRuntime& runtime() const { return runtime_; }
  const std::string& device_name() const { return device_name_; }
  // The stream, for a call that enqueues; marks from here on include it.
  CudaStream* stream() {
    unmarked_ = true;
    return stream_;
  }
  // Makes the device the calling thread's. Cheap.
  void enter() const;

  // What a call that enqueues returned: an error of the device is kept for the next wait.
  void keep(CudaError error);
  // What any call returned, as a status with the code of code_of() and a sentence that begins with `where`. An error
  // of earlier work is kept as well, and its sentence names the GPU instead.
  Status status_of(CudaError error, const std::string& where);
  // Asks whether the device has failed. Never waits. kExhausted: it has, as wait() says.
  Status health();
  // Bytes of the device that are in use through DeviceMemory.
  size_t taken() const { return taken_; }
  void take(size_t bytes) { taken_ += bytes; }
  void give_back(size_t bytes) { taken_ -= bytes; }
  // Whether a wait met its deadline. A call that waits for the device may then never return.
  bool hangs() const { return hangs_; }

  void fill(void* to, int byte, size_t bytes);
  // `from` may be used again as soon as this returns.
  void write(void* to, const void* from, size_t bytes);
  // `to` is written when the host finds out that the work is done, in wait() or reached().
  void read(void* to, const void* from, size_t bytes);
  // `from`: two int64 of the device, which are added to the flags in the way of RoundingFlags.
  void gather(core::RoundingFlags* to, const std::int64_t* from);
  // `from`: what find_bad_index() wrote for the node's indices. If it found one, a wait returns kCorrupt.
  void check_index(const core::Node& node, std::int64_t limit, const std::uint64_t* from);

  core::Mark mark();
  bool reached(core::Mark mark);
  // The mark's event, which stands for a later mark when it has been recorded again. Valid as long as the queue.
  CudaEvent* event(core::Mark mark) const { return event_of(mark.number); }
  // kExhausted: the device failed. The code lets the process end with an exit code that may be tried again: a new
  // process gets a new context.
  Status wait(core::Mark mark);
  // Waits, and leaves every error to the next wait(). False: the device failed.
  bool settle(core::Mark mark) { return wait_until(mark.number); }

 private:
  // What is to happen to bytes in the pinned ring when the work before a mark is done.
  struct Landing {
    enum class Kind : std::uint8_t { kWritten, kRead, kFlags, kIndex };
    Kind kind = Kind::kWritten;
    std::uint64_t mark = 0;            // done: the bytes are there, or were taken
    std::uint64_t end = 0;             // place in the ring after its bytes
    const std::byte* bytes = nullptr;  // pinned
    void* to = nullptr;
    size_t count = 0;                  // bytes
    const core::Node* node = nullptr;  // kIndex
    std::int64_t limit = 0;            // kIndex
  };

  static constexpr size_t kRingBytes = size_t{8} << 20;
  static constexpr size_t kPieceBytes = kRingBytes / 4;
  static constexpr size_t kMostLandings = 1024;
  static constexpr size_t kEvents = 64;

  DeviceQueue(const CudaRuntime& runtime, int device, std::chrono::milliseconds deadline)
      : runtime_(runtime), device_(device), deadline_(deadline) {}
  Status set_up();
  std::byte* room(size_t bytes);
  void land(Landing landing);
  void fetch(Landing landing, const void* from);
  void land_until(std::uint64_t mark);
  void touch_down(const Landing& landing);
  bool lands_in(const void* begin, size_t bytes) const;
  bool done(std::uint64_t mark);
  bool wait_until(std::uint64_t mark);
  void fail_device(const std::string& why);
  CudaEvent* event_of(std::uint64_t mark) const { return events_[mark % kEvents]; }

  const CudaRuntime& runtime_;
  const int device_;
  const std::chrono::milliseconds deadline_;
  std::string device_name_ = "unknown";
  CudaStream* stream_ = nullptr;

  // By the mark's number. One that is kEvents marks old has been recorded again, and stands for a later mark. To ask
  // for it is safe, and to wait for it takes longer.
  std::array<CudaEvent*, kEvents> events_{};
  std::uint64_t marked_ = 0;  // the latest mark
  std::uint64_t done_ = 0;    // all work before this mark is done
  bool unmarked_ = false;     // there is work after the latest mark

  std::byte* ring_ = nullptr;
  std::uint64_t ring_begin_ = 0, ring_end_ = 0;  // bytes in use, as places modulo kRingBytes
  std::vector<Landing> landings_;                // a ring of kMostLandings, by mark
  std::uint64_t first_landing_ = 0, end_landing_ = 0;

  bool hangs_ = false;
  size_t taken_ = 0;
  std::optional<Error> failure_;     // of the device: final
  std::optional<Error> data_error_;  // the first that no wait has returned
};

}  // namespace lockstep::trainer::cuda
