// Stopping as a type: a gate admits work until it is closed, and close() waits for the work inside.
#pragma once

#include <cassert>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace lockstep {

class Gate {
 public:
  // Proof that the holder is inside; its destructor leaves.
  class Pass {
   public:
    Pass() = default;
    explicit Pass(Gate* gate) : gate_(gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->leave();
    }
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    Gate* gate_ = nullptr;
  };

  ~Gate() { assert(inside_ == 0 && "gate destroyed with work inside"); }

  // An empty pass if the gate is closed. Any thread.
  Pass enter() {
    const std::lock_guard guard(mutex_);
    if (closed_) return Pass();
    ++inside_;
    return Pass(this);
  }

  // Refuses new work and returns when the last pass has left. Any thread that is not inside.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    empty_.wait(lock, [this] { return inside_ == 0; });
  }

 private:
  void leave() {
    const std::lock_guard guard(mutex_);
    if (--inside_ == 0) empty_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable empty_;
  bool closed_ = false;  // protected by mutex_
  long inside_ = 0;      // protected by mutex_
};

}  // namespace lockstep
