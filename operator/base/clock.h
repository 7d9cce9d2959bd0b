// Time as a seam. Deadlines and ages use the monotonic clock; times that people read use the wall clock.
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
  // The calendar time; may jump. Any thread.
  virtual WallTime wall_now() const = 0;
  // Waits on `condition` (with `lock` held) until it is notified or `deadline` has passed on this clock.
  // Returns false if the deadline has passed. May return early without a reason, as condition variables do.
  virtual bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                          MonotonicTime deadline) = 0;
};

// The clocks of this machine.
class SystemClock final : public Clock {
 public:
  MonotonicTime now() const override { return std::chrono::steady_clock::now(); }
  WallTime wall_now() const override { return std::chrono::system_clock::now(); }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  MonotonicTime deadline) override {
    return condition.wait_until(lock, deadline) == std::cv_status::no_timeout;
  }
  // The default clock of main() and of callers without a reason for another.
  static SystemClock& instance();
};

// A clock that only the test moves; it wakes waiters whose deadline has passed.
class ManualClock final : public Clock {
 public:
  MonotonicTime now() const override;
  WallTime wall_now() const override;
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  MonotonicTime deadline) override;
  // Moves both clocks forward by `step`.
  void advance(Duration step);
  // Moves only the wall clock (as a user or NTP does).
  void jump_wall(Duration step);

 private:
  mutable std::mutex mutex_;
  MonotonicTime now_{std::chrono::hours(1)};
  WallTime wall_{std::chrono::seconds(1'700'000'000)};
};

}  // namespace lockstep
