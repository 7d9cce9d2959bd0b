// The simulations of packing_bench: which are run, with which seeds, and their results in figures.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/placement/simulation.h"

namespace lockstep::bench {

// The figures that are reported come from these, and the weights of the objective were chosen by others.
inline const std::vector<std::uint64_t> kReportSeeds{1, 2, 3, 4, 5, 6, 7, 8};
inline const std::vector<std::uint64_t> kTuningSeeds{101, 102, 103, 104, 105, 106, 107, 108};

struct Experiment {
  std::string name;
  double load = 0.95;
  Mode mode = Mode::kPreferred;
  double failures = 0;  // of nodes, per gang
};

// A value over the seeds.
struct Estimate {
  double mean = 0;
  double half = 0;  // of the 95 % confidence interval by Student's t; 0 for one seed
};
Estimate estimate(const std::vector<double>& values);

struct Plan {
  Site site;
  int gangs = 12'000;
  double tail = 1;  // of their sizes
  std::vector<std::uint64_t> seeds = kReportSeeds;
  int threads = 1;
};

// What a policy did in an experiment, by seed.
using Outcomes = std::vector<Outcome>;

// Runs the experiment with each policy; the gangs of a seed are the same for all.
std::map<std::string, Outcomes> run(const Plan& plan, const Experiment& experiment,
                                    const std::vector<std::string>& policies);
// The same with given gangs instead of seeds: one outcome for each.
std::map<std::string, Outcomes> run(const Plan& plan, const std::vector<std::vector<Gang>>& gangs,
                                    const std::vector<std::string>& policies);

// One policy, a new one for each seed.
Outcomes run_policy(const Plan& plan, const Experiment& experiment,
                    const std::function<std::unique_ptr<Policy>()>& make);

// One value of each seed.
template <class Value>
Estimate over_seeds(const Outcomes& outcomes, Value&& value) {
  std::vector<double> values;
  for (const Outcome& outcome : outcomes) values.push_back(value(outcome));
  return estimate(values);
}

}  // namespace lockstep::bench
