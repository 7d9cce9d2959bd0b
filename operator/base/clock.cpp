#include "operator/base/clock.h"

namespace lockstep {

SystemClock& SystemClock::instance() {
  static SystemClock clock;
  return clock;
}

MonotonicTime ManualClock::now() const {
  const std::lock_guard guard(mutex_);
  return now_;
}

WallTime ManualClock::wall_now() const {
  const std::lock_guard guard(mutex_);
  return wall_;
}

bool ManualClock::wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                             MonotonicTime deadline) {
  if (now() >= deadline) return false;
  // The waiter checks virtual time every millisecond of real time, because advance() cannot know every condition
  // variable. A waiter that is notified through its own still wakes at once.
  condition.wait_for(lock, std::chrono::milliseconds(1));
  return now() < deadline;
}

void ManualClock::advance(Duration step) {
  const std::lock_guard guard(mutex_);
  now_ += step;
  wall_ += std::chrono::duration_cast<WallTime::duration>(step);
}

void ManualClock::jump_wall(Duration step) {
  const std::lock_guard guard(mutex_);
  wall_ += std::chrono::duration_cast<WallTime::duration>(step);
}

}  // namespace lockstep
