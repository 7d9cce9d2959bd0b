// The speed of a run as tf_cnn_benchmarks reports it, and where the time of its steps goes. Pure: the caller brings the
// times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/report/throughput.h"

namespace lockstep::trainer::report {

// Where the time of one step on one rank goes, in seconds. Micro-batches of the step are added up.
struct StepParts {
  double load = 0;      // waiting for samples and copying them to the inputs
  double forward = 0;   // forward passes
  double backward = 0;  // backward passes; buckets leave meanwhile
  double wait = 0;      // for peers, after the backward pass: the communication that computing does not hide
  double commit = 0;    // norm and optimizer
};

// What a step sends over the links, meanwhile.
struct StepTraffic {
  double seconds = 0;    // with a collective under way
  double bus_bytes = 0;  // of its gradients: what a ring carries over each link, 2 (n - 1) / n of them for n ranks
};

struct BenchmarkResult {
  SpeedStatistics speed;                     // over all timed steps
  double compute_speed = 0;                  // samples / (mean step time - mean load time); 0: the steps only load
  double input_stall_percent = 0;            // load as a share of the step time
  double exposed_communication_percent = 0;  // wait as a share of the step time
  double bus_bandwidth = 0;                  // bytes/s, as nccl-tests counts them; 0: nothing travelled
};

// One thread.
class Benchmark {
 public:
  static constexpr std::size_t kEvery = 10;     // timed steps between two lines
  static constexpr std::size_t kJitter = 1000;  // timed steps that the jitter of a line looks back on

  // `warm_up_steps` are not timed; a step has `samples` over all ranks.
  Benchmark(std::int64_t warm_up_steps, std::int64_t samples)
      : left_to_warm_(warm_up_steps), samples_(static_cast<double>(samples)) {}

  // A committed step that took `seconds` on the wall. Returns the line to print, every kEvery timed steps; it counts
  // timed steps. Its speed and error are over all of them, its jitter over the last kJitter: a line costs the same
  // after any number of steps.
  std::optional<std::string> add(double seconds, const StepParts& parts, double loss, const StepTraffic& traffic = {});

  BenchmarkResult result() const;

 private:
  std::int64_t left_to_warm_;
  double samples_;
  SpeedStatistics so_far() const;

  std::vector<double> seconds_;                // of the timed steps
  double total_ = 0, load_ = 0, wait_ = 0;     // sums over them
  StepTraffic traffic_;                        // sums over them
  double average_ = 0, square_deviation_ = 0;  // of their speeds; the sum of squared deviations
};

}  // namespace lockstep::trainer::report
