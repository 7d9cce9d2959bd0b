#include "trainer/report/throughput.h"

#include <algorithm>
#include <cmath>

namespace lockstep::trainer::report {
namespace {

constexpr size_t kWindow = 1000;      // steps that medians look back on
constexpr double kNewest = 2.0 / 21;  // weight of the newest step: about the last 20 count
constexpr double kMostStretch = 3.0;  // a step counts as at most so many times the smoothed one
constexpr double kNormal = 1.4826;    // makes the median absolute deviation of normal noise its standard deviation

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

SpeedStatistics speed_statistics(double samples, const std::vector<double>& seconds) {
  std::vector<double> speeds;
  double total = 0;
  for (const double step : seconds) {
    if (!(step > 0)) continue;
    speeds.push_back(samples / step);
    total += step;
  }
  SpeedStatistics result;
  result.steps = speeds.size();
  if (speeds.empty()) return result;
  const auto n = static_cast<double>(speeds.size());
  result.mean = samples * n / total;
  double average = 0;
  for (const double speed : speeds) average += speed / n;
  double variance = 0;
  for (const double speed : speeds) variance += (speed - average) * (speed - average) / n;
  result.standard_error = std::sqrt(variance) / std::sqrt(n);
  result.median = median_of(speeds);
  for (double& speed : speeds) speed = std::abs(speed - result.median);
  result.jitter = kNormal * median_of(std::move(speeds));
  return result;
}

Throughput::Throughput(std::int64_t total_steps, int warm_up_steps)
    : total_steps_(total_steps), left_to_warm_(warm_up_steps) {}

void Throughput::add(std::int64_t step, double samples, double seconds) {
  last_step_ = step;
  if (!(seconds > 0)) return;
  if (left_to_warm_ > 0) {
    --left_to_warm_;
    return;
  }
  samples_ = samples;
  if (smoothed_seconds_ == 0) {
    smoothed_seconds_ = seconds;
  } else {
    const double counted = std::min(seconds, kMostStretch * smoothed_seconds_);
    smoothed_seconds_ += kNewest * (counted - smoothed_seconds_);
  }
  if (seconds_.size() < kWindow) {
    seconds_.push_back(seconds);
  } else {
    seconds_[next_] = seconds;
    next_ = (next_ + 1) % kWindow;
  }
}

double Throughput::samples_per_second() const {
  return smoothed_seconds_ > 0 ? samples_ / smoothed_seconds_ : 0;
}

double Throughput::median_samples_per_second() const {
  return statistics().median;
}

double Throughput::eta_seconds() const {
  if (total_steps_ <= last_step_ || smoothed_seconds_ == 0) return 0;
  return static_cast<double>(total_steps_ - last_step_) * smoothed_seconds_;
}

SpeedStatistics Throughput::statistics() const {
  return speed_statistics(samples_, seconds_);
}

}  // namespace lockstep::trainer::report
