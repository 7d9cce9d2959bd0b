// Speed of training from the times of its steps: what people watch (smoothed, time left) and what tables quote
// (mean, standard error, jitter, median). Pure: the caller brings the times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::trainer::report {

// Numbers over a series of speeds in samples/s, as tf_cnn_benchmarks prints them.
struct SpeedStatistics {
  size_t steps = 0;
  double mean = 0;            // samples / mean step time, not the mean of the speeds
  double standard_error = 0;  // standard deviation of the speeds / sqrt(steps)
  double jitter = 0;          // 1.4826 * median |speed - median|
  double median = 0;
};

// `samples` per step, and the seconds of each step (those that are not above 0 are left out).
SpeedStatistics speed_statistics(double samples, const std::vector<double>& seconds);

// Follows a run. Steps slower than the rest (evaluation, checkpoint) move the smoothed speed little. One thread.
class Throughput {
 public:
  // `warm_up_steps` are left out of every number but time spent. total_steps 0: not known.
  explicit Throughput(std::int64_t total_steps, int warm_up_steps = 2);

  // A committed step of `samples` over all ranks that took `seconds` on the wall. `step` counts from 1 and may start
  // anywhere (a restored run).
  void add(std::int64_t step, double samples, double seconds);

  double samples_per_second() const;         // smoothed over about the last 20 steps; 0 before the first
  double median_samples_per_second() const;  // of the last 1000 steps
  double eta_seconds() const;                // 0: not known or done
  SpeedStatistics statistics() const;        // of the last 1000 steps

 private:
  std::int64_t total_steps_;
  std::int64_t last_step_ = 0;
  int left_to_warm_;
  double smoothed_seconds_ = 0;  // 0: none yet
  double samples_ = 0;           // of the last step
  std::vector<double> seconds_;  // a ring of the last kWindow steps
  size_t next_ = 0;
};

}  // namespace lockstep::trainer::report
