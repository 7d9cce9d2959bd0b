#include "trainer/report/benchmark.h"

#include <numeric>

#include "trainer/report/report.h"

namespace lockstep::trainer::report {

std::optional<std::string> Benchmark::add(double seconds, const StepParts& parts, double loss) {
  if (left_to_warm_ > 0) {
    --left_to_warm_;
    return std::nullopt;
  }
  if (!(seconds > 0)) return std::nullopt;
  seconds_.push_back(seconds);
  load_ += parts.load;
  wait_ += parts.wait;
  if (seconds_.size() % kEvery != 0) return std::nullopt;
  return format_benchmark_line(static_cast<std::int64_t>(seconds_.size()), speed_statistics(samples_, seconds_), loss);
}

BenchmarkResult Benchmark::result() const {
  BenchmarkResult result{.speed = speed_statistics(samples_, seconds_)};
  const double total = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  if (total <= 0) return result;
  if (total > load_) result.compute_speed = samples_ * static_cast<double>(seconds_.size()) / (total - load_);
  result.input_stall_percent = 100 * load_ / total;
  result.exposed_communication_percent = 100 * wait_ / total;
  return result;
}

}  // namespace lockstep::trainer::report
