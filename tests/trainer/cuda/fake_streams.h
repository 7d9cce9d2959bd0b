// Part of the fake (fake_cuda.h): streams and events. Any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "trainer/cuda/types.h"

namespace lockstep::trainer::cuda {

// A queue, and the thread that works it off. What Streams guards.
struct CudaStream {
  int device = 0;
  std::deque<std::function<void()>> queue;
  std::uint64_t enqueued = 0;  // pieces of work, ever
  std::uint64_t wanted = 0;    // of them: those that may run
  std::uint64_t done = 0;      // of them: those that have run
  bool closing = false;
  std::thread thread;
};

// The place in a stream that an event stands for.
struct CudaEvent {
  struct Record {
    std::shared_ptr<CudaStream> stream;
    std::uint64_t number = 0;
  };
  std::optional<Record> latest;
};

namespace fake {

class Streams {
 public:
  enum class Hold : std::uint8_t { kBack, kNot };
  static constexpr int kMostDevices = 16;

  explicit Streams(size_t most_held_back) : most_held_back_(most_held_back) {}

  CudaStream* make(int device);
  // Waits for its work. False, as of all of these: there is no such stream or event.
  bool end(CudaStream* stream);
  bool put(CudaStream* stream, std::function<void()> work, Hold hold);
  // The number of its device; none: there is no such stream.
  std::optional<int> device_of(CudaStream* stream) const;
  bool wait(CudaStream* stream);
  void wait_for_device(int device);
  // Whether all its work is done; asks for it to be.
  std::optional<bool> query(CudaStream* stream);

  CudaEvent* make_event();
  bool end(CudaEvent* event);
  bool record(CudaEvent* event, CudaStream* stream);
  bool make_wait(CudaStream* stream, CudaEvent* event);
  bool wait(CudaEvent* event);
  std::optional<bool> query(CudaEvent* event);

  // The error of a device whose work is lost, else kSuccess.
  CudaError lost(int device) const;
  void lose(int device, CudaError error);
  void mend();

 private:
  void work(CudaStream& stream);
  std::shared_ptr<CudaStream> known(CudaStream* stream) const;  // with mutex_ held
  CudaEvent* known(CudaEvent* event) const;                     // with mutex_ held
  void want(CudaStream& stream, std::uint64_t number);          // with mutex_ held
  void wait(const CudaEvent::Record& record);

  const size_t most_held_back_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<CudaStream*, std::shared_ptr<CudaStream>> streams_;
  std::map<CudaEvent*, std::unique_ptr<CudaEvent>> events_;
  CudaError lost_[kMostDevices] = {};
};

}  // namespace fake
}  // namespace lockstep::trainer::cuda
