// The activity of the training thread, for a watcher of hangs: what it does, and a count that grows as it makes
// progress. That thread writes, any thread reads at any time, and none waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::trainer::core {

enum class Doing : std::uint8_t {
  kStarting,    // it has no state to continue from so far
  kLoading,     // samples
  kForward,     // also of held-out samples, and when it writes text
  kBackward,    //
  kWaiting,     // for a collective
  kCommitting,  // the optimizer
  kSaving,      // a checkpoint, on rank 0
  kRegrouping,  // between two generations
  kOther,       // between steps
};

class Pulse {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The training thread.
  void enter(Doing doing) {
    doing_.store(doing, std::memory_order_relaxed);
    beat();
  }
  void beat() { beats_.store(beats_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void committed(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
  // It may wait for storage until then without a beat. Time(): it does not wait for storage.
  void rest_until(Time end) { rests_until_.store(end, std::memory_order_relaxed); }

  // Any thread.
  Doing doing() const { return doing_.load(std::memory_order_relaxed); }
  std::uint64_t beats() const { return beats_.load(std::memory_order_relaxed); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }  // committed steps
  Time rests_until() const { return rests_until_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Doing> doing_{Doing::kStarting};
  std::atomic<std::uint64_t> beats_{0};
  std::atomic<std::int64_t> step_{0};
  std::atomic<Time> rests_until_{};
};

// For its lifetime the training thread does something else. `rest`: it may wait for storage for so long.
class Meanwhile {
 public:
  Meanwhile(Pulse& pulse, Doing doing, std::chrono::nanoseconds rest = {})
      : pulse_(pulse), before_(pulse.doing()), rested_before_(pulse.rests_until()) {
    if (rest.count() > 0) pulse_.rest_until(std::chrono::steady_clock::now() + rest);
    pulse_.enter(doing);
  }
  ~Meanwhile() {
    pulse_.enter(before_);
    pulse_.rest_until(rested_before_);
  }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  Pulse& pulse_;
  const Doing before_;
  const Pulse::Time rested_before_;
};

}  // namespace lockstep::trainer::core
