// Where a training step of a network spends its time, against what its convolutions or its matrix products cost at
// least (bound.h). Steps and bounds take turns in one run; figures are medians.
//
// CPU time is that of all threads of the process, so it stays comparable on a machine that others use.
#include <fmt/format.h>
#include <omp.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/process_figures.h"
#include "tests/bench/trainer/bound.h"
#include "tests/bench/trainer/network.h"

namespace lockstep::bench {
namespace {

// The time of all runs of one part of a step, by round.
struct Part {
  std::vector<double> wall, cpu;  // seconds
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double now(clockid_t clock) {
  timespec at{};
  clock_gettime(clock, &at);
  return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
}

// Parts by name. A part that runs several times in a round adds up.
class Profile {
 public:
  void begin_round() { ++rounds_; }
  template <typename Body>
  void time(const std::string& name, const Body& body) {
    const double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    body();
    Part& part = parts_[name];
    part.wall.resize(rounds_);
    part.cpu.resize(rounds_);
    part.wall.back() += now(CLOCK_MONOTONIC) - wall;
    part.cpu.back() += now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  }
  const std::map<std::string, Part>& parts() const { return parts_; }
  // The median over the rounds of the sum of all parts.
  Part total() const {
    Part sum{std::vector<double>(rounds_), std::vector<double>(rounds_)};
    for (const auto& [name, part] : parts_) {
      for (size_t i = 0; i < part.wall.size(); ++i) sum.wall[i] += part.wall[i], sum.cpu[i] += part.cpu[i];
    }
    return sum;
  }

 private:
  size_t rounds_ = 0;
  std::map<std::string, Part> parts_;
};

Status profile_round(Network& network, Profile& profile) {
  Status status;
  profile.begin_round();
  for (size_t step = 0; step < network.steps() && status.ok(); ++step) {
    profile.time(network.kind_of(step) + " forward", [&] { status = network.forward(step); });
  }
  for (size_t step = network.steps(); step-- > 0 && status.ok();) {
    profile.time(network.kind_of(step) + " backward", [&] { status = network.backward(step); });
  }
  profile.time("update", [&] { network.update(); });
  return status;
}

void print(const Profile& profile, double bound_wall, double bound_cpu) {
  std::vector<std::pair<std::string, Part>> sorted(profile.parts().begin(), profile.parts().end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return median(a.second.cpu) > median(b.second.cpu); });
  for (const auto& [name, part] : sorted) {
    const double wall = median(part.wall), cpu = median(part.cpu);
    fmt::print("  {:<34}{:>9.1f}{:>9.1f}{:>9.2f}{:>9.2f}\n", name, wall * 1e3, cpu * 1e3, wall / bound_wall,
               cpu / bound_cpu);
  }
}

struct Options {
  std::int64_t batch = 0;  // 0: by network
  int threads = 2, rounds = 5;
  trainer::core::Recompute recompute = trainer::core::Recompute::kNothing;

  Result<std::unique_ptr<Network>> make(const std::string& name) const {
    return Network::make(name, batch_of(name), threads, recompute);
  }
  std::int64_t batch_of(const std::string& name) const { return batch == 0 ? usual_batch(name) : batch; }
};

Status measure(const std::string& name, const Options& options) {
  const std::int64_t batch = options.batch_of(name);
  const int threads = options.threads, rounds = options.rounds;
  LOCKSTEP_TRY(auto network, options.make(name));
  const std::unique_ptr<Bound> bound = bound_of(network->graph(), batch, threads);
  Profile profile, bounds;
  for (int i = 0; i <= rounds; ++i) {
    if (i == 1) profile = {}, bounds = {};  // the first round warms up
    LOCKSTEP_CHECK_OK(profile_round(*network, profile));
    bounds.begin_round();
    bounds.time("bound: forward", [&] { bound->forward(); });
    bounds.time("bound: backward data", [&] { bound->backward_data(); });
    bounds.time("bound: backward weights", [&] { bound->backward_weights(); });
  }
  const double bound_wall = median(bounds.total().wall), bound_cpu = median(bounds.total().cpu);
  const double wall = median(profile.total().wall), cpu = median(profile.total().cpu);
  fmt::print("{}, {} samples, {} threads, median of {}, against its {} alone\n", name, batch, threads, rounds,
             bound->what());
  fmt::print("  {:<34}{:>9}{:>9}{:>9}{:>9}\n", "", "wall ms", "CPU ms", "of bound", "in CPU");
  print(profile, bound_wall, bound_cpu);
  print(bounds, bound_wall, bound_cpu);
  fmt::print("  {:<34}{:>9.1f}{:>9.1f}{:>9.2f}{:>9.2f}\n\n", "all", wall * 1e3, cpu * 1e3, wall / bound_wall,
             cpu / bound_cpu);
  std::fflush(stdout);
  return {};
}

// Trains one step for each line of the standard input. It answers with the step's wall time and CPU time in seconds,
// and with the most memory in MiB that the process has had. Two programs that do so can take turns.
Status train_on_request(const std::string& name, const Options& options) {
  LOCKSTEP_TRY(auto network, options.make(name));
  const ProcessFigures figures(getpid());
  for (std::string line; std::getline(std::cin, line);) {
    const double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    LOCKSTEP_CHECK_OK(network->train());
    fmt::print("{:.6f} {:.6f} {}\n", now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu,
               figures.peak_kib() / 1024);
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  CLI::App app("Profiles training steps of networks against their convolutions or matrix products alone.",
               "training_step_bench");
  std::vector<std::string> names = network_names();
  Options options;
  app.add_option("--networks", names, "Which")->check(CLI::IsMember(network_names()))->delimiter(',');
  app.add_option("--batch", options.batch, "Samples in a step; default: by network")->check(CLI::Range(2, 4096));
  app.add_option("--threads", options.threads, "Threads that compute")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Timed steps")->check(CLI::Range(1, 1000))->capture_default_str();
  bool on_request = false, recompute = false;
  auto* asked = app.add_flag("--on-request", on_request, "Train the network, a step for each line of standard input");
  app.add_flag("--recompute", recompute, "As --recompute=norm of lockstep-trainer")->needs(asked);
  CLI11_PARSE(app, argc, argv);
  if (recompute) options.recompute = lockstep::trainer::core::Recompute::kNorms;
  omp_set_num_threads(options.threads);
  for (const std::string& name : names) {
    const lockstep::Status status = on_request ? train_on_request(name, options) : measure(name, options);
    if (!status.ok()) {
      fmt::print(stderr, "training_step_bench: {}: {}\n", name, status.error().message);
      return 1;
    }
  }
  return 0;
}
