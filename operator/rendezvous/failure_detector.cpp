#include "operator/rendezvous/failure_detector.h"

#include <algorithm>
#include <cmath>

namespace lockstep::rendezvous {
namespace {

constexpr double kDeviationsOfPhi8 = 5.612;  // of the normal distribution, where P(later) = 10^-8
// A quiet cluster's gaps hardly differ; a timer and a switch are never more exact than this part of the interval.
constexpr int kLeastDeviation = 5;
constexpr int kLeastIntervals = 3;
constexpr int kOfLongest = 2;  // a gap twice as long as the longest one is another thing

double ms(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

void ArrivalTimes::note(MonotonicTime now, Duration longest) {
  const Duration gap = now - last_;
  const bool first = last_ == MonotonicTime{};
  last_ = now;
  if (first || gap > longest || gap < Duration::zero()) return;
  if (gaps_ % kLongestOf == 0) longest_ = {Duration::zero(), longest_[0]};
  longest_[0] = std::max(longest_[0], gap);
  ++gaps_;
  // Welford's update, with the weight of a gap bounded below, so that old ones fade.
  const double weight = 1.0 / static_cast<double>(std::min<std::int64_t>(gaps_, kWindow));
  const double off = ms(gap) - mean_;
  mean_ += weight * off;
  variance_ = (1 - weight) * (variance_ + weight * off * off);
}

double ArrivalTimes::deviation(Duration every) const {
  return std::max(std::sqrt(variance_), ms(every) / kLeastDeviation);
}

Duration ArrivalTimes::silence(Duration every, const SilenceBounds& bounds) const {
  const Duration most = std::max(bounds.most, kLeastIntervals * every);
  const Duration least = std::min(std::max(bounds.least, kLeastIntervals * every), most);
  if (gaps_ < kLeastGaps) return most;
  const double suspect = mean_ + kDeviationsOfPhi8 * deviation(every);
  const Duration by_phi = std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(suspect));
  return std::clamp(std::max(by_phi, kOfLongest * std::max(longest_[0], longest_[1])), least, most);
}

double ArrivalTimes::phi(Duration silent, Duration every) const {
  if (gaps_ < kLeastGaps) return 0;
  const double deviations = (ms(silent) - mean_) / deviation(every);
  const double later = 0.5 * std::erfc(deviations / std::sqrt(2.0));
  constexpr double kLeast = 1e-300;  // so that a long silence has a number
  return -std::log10(std::max(later, kLeast));
}

}  // namespace lockstep::rendezvous
