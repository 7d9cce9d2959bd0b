#include "trainer/report/benchmark.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "trainer/report/report.h"

namespace lockstep::trainer::report {

std::optional<std::string> Benchmark::add(double seconds, const StepParts& parts, double loss,
                                          const StepTraffic& traffic) {
  if (left_to_warm_ > 0) {
    --left_to_warm_;
    return std::nullopt;
  }
  if (!(seconds > 0)) return std::nullopt;
  seconds_.push_back(seconds);
  const double speed = samples_ / seconds, before = average_;
  average_ += (speed - average_) / static_cast<double>(seconds_.size());
  square_deviation_ += (speed - before) * (speed - average_);
  total_ += seconds;
  load_ += parts.load;
  wait_ += parts.wait;
  traffic_.seconds += traffic.seconds;
  traffic_.bus_bytes += traffic.bus_bytes;
  if (seconds_.size() % kEvery != 0) return std::nullopt;
  return format_benchmark_line(static_cast<std::int64_t>(seconds_.size()), so_far(), loss);
}

SpeedStatistics Benchmark::so_far() const {
  const auto lately = static_cast<std::ptrdiff_t>(std::min(seconds_.size(), kJitter));
  SpeedStatistics speed = speed_statistics(samples_, {seconds_.end() - lately, seconds_.end()});
  const auto n = static_cast<double>(seconds_.size());
  speed.steps = seconds_.size();
  speed.mean = samples_ * n / total_;
  speed.standard_error = std::sqrt(square_deviation_) / n;
  return speed;
}

BenchmarkResult Benchmark::result() const {
  BenchmarkResult result{.speed = speed_statistics(samples_, seconds_)};
  if (total_ <= 0) return result;
  if (total_ > load_) result.compute_speed = samples_ * static_cast<double>(seconds_.size()) / (total_ - load_);
  result.input_stall_percent = 100 * load_ / total_;
  result.exposed_communication_percent = 100 * wait_ / total_;
  if (traffic_.seconds > 0) result.bus_bandwidth = traffic_.bus_bytes / traffic_.seconds;
  return result;
}

}  // namespace lockstep::trainer::report
