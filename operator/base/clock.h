// Time as a seam. Deadlines and ages use the monotonic clock; what people read uses the wall clock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace lockstep {

using MonotonicTime = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::system_clock::time_point;
using Duration = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back; only differences mean something. Any thread.
  virtual MonotonicTime now() const = 0;
  // What the calendar says; may jump. Any thread.
  virtual WallTime wall_now() const = 0;
  // Waits on `condition` (with `lock` held) until it is notified or `deadline` has passed on this clock.
  // Returns false when the deadline has passed. May return early without a reason, as condition variables do.
  virtual bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                          MonotonicTime deadline) = 0;
};

// The machine's own clocks.
class SystemClock final : public Clock {
 public:
  MonotonicTime now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall_now() const override { return std::chrono::system_clock::now(); }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  MonotonicTime deadline) override {
    return condition.wait_until(lock, deadline) == std::cv_status::no_timeout;
  }
  // The one that main() and callers without a reason for another use.
  static SystemClock& instance();
};

// A clock that moves only when the test says so; waiters whose deadline was passed wake up.
class ManualClock final : public Clock {
 public:
  MonotonicTime now() const override;
  WallTime wall_now() const override;
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  MonotonicTime deadline) override;
  // Moves both clocks forward by `step`.
  void advance(Duration step);
  // Moves only the wall clock (a person set it, or NTP did).
  void jump_wall(Duration step);

 private:
  mutable std::mutex mutex_;
  MonotonicTime now_{std::chrono::hours(1)};
  WallTime wall_{std::chrono::seconds(1'700'000'000)};
};

}  // namespace lockstep
