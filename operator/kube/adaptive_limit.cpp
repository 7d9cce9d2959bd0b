#include "operator/kube/adaptive_limit.h"

#include <algorithm>
#include <cmath>

namespace lockstep::kube {

void AdaptiveLimit::ended(MonotonicTime now, Duration latency, Answer answer, int inside, Duration retry_after) {
  if (now - last_answer_ > options_.forget_lowest) starting_ = true;
  last_answer_ = now;
  ++answers_;
  used_ = used_ || inside * 2 >= limit();
  if (answer == Answer::kServed) {
    const double seconds = std::chrono::duration<double>(latency).count();
    lowest_now_ = lowest_now_ > 0 ? std::min(lowest_now_, seconds) : seconds;
    seconds_ += seconds;
    ++served_;
  } else if (!cut_) {
    cut_ = true;
    starting_ = false;
    limit_ = std::max(options_.least, limit_ / 2);
  }
  if (answer == Answer::kRefused) {
    closed_until_ = std::max(closed_until_, now + retry_after);
    ceiling_ = std::max(options_.least, static_cast<double>(inside - 1));
    refused_ = now;
  }
  if (answers_ >= limit()) end_round(now);
}

double AdaptiveLimit::lowest() const {
  if (lowest_now_ <= 0) return lowest_before_;
  return lowest_before_ > 0 ? std::min(lowest_now_, lowest_before_) : lowest_now_;
}

void AdaptiveLimit::end_round(MonotonicTime now) {
  if (ceiling_ > 0 && now - refused_ > options_.forget_refusal) ceiling_ = 0;
  if (!cut_ && served_ > 0 && seconds_ > 0) {
    const double quick = std::chrono::duration<double>(options_.quick).count();
    const double accepted = std::max(options_.tolerance * lowest(), quick);
    const double gradient = std::clamp(accepted * served_ / seconds_, 0.5, 1.0);
    starting_ = starting_ && gradient == 1;
    const double next = starting_ ? limit_ * 2 : limit_ * gradient + std::sqrt(limit_) / 2;
    const double most = ceiling_ > 0 ? std::min(ceiling_, options_.most) : options_.most;
    if (next < limit_ || used_) limit_ = std::clamp(next, options_.least, std::max(most, options_.least));
  }
  // Not within a round: one of a slow server takes longer than the period, and would be its own measure.
  if (now - period_ > options_.forget_lowest) {
    lowest_before_ = lowest_now_;
    lowest_now_ = 0;
    period_ = now;
  }
  answers_ = served_ = 0;
  seconds_ = 0;
  used_ = cut_ = false;
}

}  // namespace lockstep::kube
