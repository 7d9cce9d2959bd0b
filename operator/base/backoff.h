// Exponential backoff with full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog 2015).
#pragma once

#include <algorithm>
#include <random>

#include "operator/base/clock.h"

namespace lockstep {

struct BackoffOptions {
  Duration first = std::chrono::milliseconds(100);  // ceiling of the first delay
  Duration most = std::chrono::seconds(30);         // ceiling of every later one
  double jitter = 1.0;                              // 1: uniform in [0, ceiling]; 0: exactly the ceiling
};

// Not thread-safe: one owner.
class Backoff {
 public:
  explicit Backoff(BackoffOptions options = {}, unsigned seed = std::random_device{}())
      : options_(options), random_(seed) {}

  // The time to wait before the next try; the ceiling doubles each time up to `most`.
  Duration next() {
    const Duration ceiling = ceiling_ == Duration::zero() ? options_.first : ceiling_;
    ceiling_ = std::min(options_.most, ceiling * 2);
    const double low = 1.0 - options_.jitter;
    const double share = std::uniform_real_distribution<double>(low, 1.0)(random_);
    return std::chrono::duration_cast<Duration>(ceiling * share);
  }
  // After a success: the next delay is the first again.
  void reset() { ceiling_ = Duration::zero(); }

 private:
  BackoffOptions options_;
  std::minstd_rand random_;
  Duration ceiling_ = Duration::zero();
};

}  // namespace lockstep
