#include "operator/kube/in_flight_limit.h"

#include <algorithm>

namespace lockstep::kube {

bool InFlightLimit::enter(MonotonicTime deadline) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto now = clock_.now();
    if (now >= closed_until_ && inside_ < static_cast<int>(limit_)) {
      ++inside_;
      return true;
    }
    if (now >= deadline) return false;
    const auto wake = now < closed_until_ ? std::min(deadline, closed_until_) : deadline;
    clock_.wait_until(lock, changed_, wake);
  }
}

void InFlightLimit::leave(Duration latency, bool refused, Duration retry_after) {
  const std::lock_guard guard(mutex_);
  --inside_;
  const auto now = clock_.now();
  if (refused || latency > options_.slow) {
    if (last_cut_ == MonotonicTime{} || now - last_cut_ > options_.slow) {
      limit_ = std::max(1.0, limit_ / 2);
      last_cut_ = now;
    }
    if (refused) closed_until_ = std::max(closed_until_, now + retry_after);
  } else {
    limit_ = std::min(options_.most, limit_ + 1.0 / limit_);
  }
  changed_.notify_all();
}

int InFlightLimit::limit() const {
  const std::lock_guard guard(mutex_);
  return static_cast<int>(limit_);
}

}  // namespace lockstep::kube
