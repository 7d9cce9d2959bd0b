// The activity of the training thread, for a watcher of hangs: what it does, and a count that grows as it makes
// progress. That thread writes, any thread reads at any time, and none waits.
#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::trainer::core {

enum class Doing : std::uint8_t {
  kStarting,    // it has no state to continue from so far
  kLoading,     // samples
  kForward,     // also of held-out samples, and when it writes text
  kBackward,    //
  kWaiting,     // for a collective
  kCommitting,  // the optimizer
  kSaving,      // a checkpoint, on rank 0, within the writer's own deadline
  kRegrouping,  // between two generations
  kOther,       // between steps
};

class Pulse {
 public:
  // The training thread.
  void enter(Doing doing) {
    doing_.store(doing, std::memory_order_relaxed);
    beat();
  }
  void beat() { beats_.store(beats_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void committed(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }

  // Any thread.
  Doing doing() const { return doing_.load(std::memory_order_relaxed); }
  std::uint64_t beats() const { return beats_.load(std::memory_order_relaxed); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }  // committed steps

 private:
  std::atomic<Doing> doing_{Doing::kStarting};
  std::atomic<std::uint64_t> beats_{0};
  std::atomic<std::int64_t> step_{0};
};

// For its lifetime the training thread does something else.
class Meanwhile {
 public:
  Meanwhile(Pulse& pulse, Doing doing) : pulse_(pulse), before_(pulse.doing()) { pulse_.enter(doing); }
  ~Meanwhile() { pulse_.enter(before_); }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;

 private:
  Pulse& pulse_;
  const Doing before_;
};

}  // namespace lockstep::trainer::core
