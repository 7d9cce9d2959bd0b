#include "tests/bench/placement/experiments.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

namespace lockstep::bench {
namespace {

// Runs all tasks on so many threads.
void run_all(const std::vector<std::function<void()>>& tasks, int threads) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < tasks.size(); i = next++) tasks[i]();
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
}

Trial trial_of(const Plan& plan, std::vector<Gang> gangs, double failures, std::uint64_t seed) {
  Trial trial;
  trial.site = plan.site;
  trial.gangs = std::move(gangs);
  trial.failures = failures;
  trial.seed = seed;
  return trial;
}

Trial trial_of(const Plan& plan, const Experiment& experiment, std::uint64_t seed) {
  auto gangs = draw_gangs(plan.site, {plan.gangs, plan.tail, experiment.load, experiment.mode}, seed);
  return trial_of(plan, std::move(gangs), experiment.failures, seed);
}

// Of Student's distribution with so many degrees of freedom: 95 % lie within ± this.
double student(std::size_t degrees) {
  constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
  return degrees <= std::size(kTable) ? kTable[degrees - 1] : 2.0;
}

std::map<std::string, Outcomes> run_trials(const Plan& plan, std::size_t count,
                                           const std::vector<std::string>& policies,
                                           const std::function<Trial(std::size_t)>& trial) {
  std::map<std::string, Outcomes> found;
  std::vector<std::function<void()>> tasks;
  for (const std::string& name : policies) {
    Outcomes& outcomes = found[name];
    outcomes.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      tasks.push_back([&trial, &outcomes, name, i] {
        const Trial one = trial(i);
        const auto policy = policy_of(name, one.seed);
        outcomes[i] = simulate(one, *policy);
      });
    }
  }
  run_all(tasks, plan.threads);
  return found;
}

}  // namespace

Estimate estimate(const std::vector<double>& values) {
  Estimate estimate;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) estimate.mean += value / count;
  if (values.size() < 2) return estimate;
  double squares = 0;
  for (const double value : values) squares += (value - estimate.mean) * (value - estimate.mean);
  estimate.half = student(values.size() - 1) * std::sqrt(squares / (count - 1) / count);
  return estimate;
}

std::map<std::string, Outcomes> run(const Plan& plan, const Experiment& experiment,
                                    const std::vector<std::string>& policies) {
  return run_trials(plan, plan.seeds.size(), policies,
                    [&](std::size_t i) { return trial_of(plan, experiment, plan.seeds[i]); });
}

std::map<std::string, Outcomes> run(const Plan& plan, const std::vector<std::vector<Gang>>& gangs,
                                    const std::vector<std::string>& policies) {
  return run_trials(plan, gangs.size(), policies, [&](std::size_t i) { return trial_of(plan, gangs[i], 0, i + 1); });
}

Outcomes run_policy(const Plan& plan, const Experiment& experiment,
                    const std::function<std::unique_ptr<Policy>()>& make) {
  Outcomes outcomes(plan.seeds.size());
  std::vector<std::function<void()>> tasks;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    tasks.push_back([&, i] {
      const auto policy = make();
      outcomes[i] = simulate(trial_of(plan, experiment, plan.seeds[i]), *policy);
    });
  }
  run_all(tasks, plan.threads);
  return outcomes;
}

}  // namespace lockstep::bench
