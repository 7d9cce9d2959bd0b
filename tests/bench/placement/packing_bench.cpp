// What placement does to a cluster over time, against other schedulers' rules. Measured are racks per gang and waiting
// time, replacements that stay in their block, and crossings of rings.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "tests/bench/placement/packing_report.h"

namespace lockstep::bench {
namespace {

struct Options {
  Plan plan;
  std::vector<std::string> policies = policy_names();
  std::vector<std::string> traces;
  std::string json;
  bool quick = false, tune = false, bound = false;
};

std::string shown(const Outcomes& outcomes, const Mean Outcome::*mean, double unit, int digits) {
  const Estimate value = over_seeds(outcomes, [&](const Outcome& outcome) { return (outcome.*mean).value(); });
  return fmt::format("{:.{}f} ± {:.{}f}", unit * value.mean, digits, unit * value.half, digits);
}

// Racks over the least, as a ratio to those of `peer`, by seed.
std::string shown_ratio(const Outcomes& outcomes, const Outcomes& peer) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    ratios.push_back(outcomes[i].racks_over_least.value() / std::max(1.0, peer[i].racks_over_least.value()));
  }
  const Estimate ratio = estimate(ratios);
  return fmt::format("{:.3f} ± {:.3f}", ratio.mean, ratio.half);
}

const Experiment kPacking{"packing", 0.95, Mode::kPreferred, 0}, kWaiting{"waiting", 0.85, Mode::kRequired, 0};

struct Weighting {
  std::string name;
  placement::Objective objective = placement::default_objective(2);
  double young_seconds = placement::kYoungSeconds;
};

// The default weights, and others that differ in one of them.
std::vector<Weighting> weightings() {
  std::vector<Weighting> all{{"the default"}};
  const auto add = [&](const std::string& name, const std::function<void(placement::Objective&)>& change) {
    all.push_back({name});
    change(all.back().objective);
  };
  for (const double span : {0.0, 100.0, 10'000.0}) {
    add(fmt::format("span of a block {}", span), [&](auto& objective) { objective.span[kBlock] = span; });
  }
  for (const double hole : {0.0, 0.1, 1.0, 2.0}) {
    add(fmt::format("hole of a block {}", hole), [&](auto& objective) { objective.hole[kBlock] = hole; });
  }
  for (const int power : {2, 4}) {
    add(fmt::format("power of a block {}", power), [&](auto& objective) { objective.power[kBlock] = power; });
  }
  add("power of a rack 4", [](auto& objective) { objective.power[kRack] = 4; });
  for (const double lambda : {0.0, 0.5, 6.0}) {
    add(fmt::format("lambda {}", lambda), [&](auto& objective) { objective.lambda = lambda; });
  }
  for (const int share : {8, 16}) {
    add(fmt::format("young 1/{}", share), [&](auto& objective) { objective.young = 1.0 / share; });
  }
  add("young 0", [](auto& objective) { objective.young = 0; });
  for (const int minutes : {20, 80}) {
    all.push_back({fmt::format("young for {} min", minutes)});
    all.back().young_seconds = 60.0 * minutes;
  }
  return all;
}

// What each weighting is worth in each experiment.
void tune(const Options& options) {
  const Experiment busy{"busy", 0.92, Mode::kPreferred, 0.05}, calm{"calm", 0.75, Mode::kPreferred, 0.05};
  fmt::print("{:>20} {:>15} {:>15} {:>15} {:>12} {:>12} {:>14} {:>15} {:>15}\n", "", "racks / least",
             "to slurm, by seed", "blocks / least", "one rack %", "one block %", "wait s", "stay, 0.92 %",
             "stay, 0.75 %");
  const Outcomes peer = run_policy(options.plan, kPacking, slurm_tree);
  for (const Weighting& weighting : weightings()) {
    const auto make = [&] { return lockstep_policy(weighting.objective, weighting.young_seconds); };
    const Outcomes packed = run_policy(options.plan, kPacking, make);
    fmt::print("{:>20} {:>15} {:>15} {:>15} {:>12} {:>12} {:>14} {:>15} {:>15}\n", weighting.name,
               shown(packed, &Outcome::racks_over_least, 1, 3), shown_ratio(packed, peer),
               shown(packed, &Outcome::blocks_over_least, 1, 3), shown(packed, &Outcome::in_one_rack, 100, 1),
               shown(packed, &Outcome::in_one_block, 100, 1),
               shown(run_policy(options.plan, kWaiting, make), &Outcome::wait, 1, 1),
               shown(run_policy(options.plan, busy, make), &Outcome::stayed, 100, 1),
               shown(run_policy(options.plan, calm, make), &Outcome::stayed, 100, 1));
    std::fflush(stdout);
  }
}

// What is left to gain at load 0.95: by the choice of each decision alone, and by knowledge of when gangs end.
void bound(const Options& options) {
  const auto with = [](const std::function<void(placement::Objective&)>& change) {
    placement::Objective objective = placement::default_objective(2);
    change(objective);
    return [objective] { return lockstep_policy(objective); };
  };
  const std::vector<std::pair<const char*, std::function<std::unique_ptr<Policy>()>>> rows{
      {"slurm", slurm_tree},
      {"lockstep", [] { return lockstep_policy(); }},
      {"young counts nothing", with([](auto& objective) { objective.young = 0; })},
      {"few blocks", with([](auto& objective) { objective.span[kBlock] = 10'000; })},
      {"knows the ends", oracle_policy}};
  fmt::print("Load 0.95: one rack is preferred. Mean ± 95 % confidence interval over the seeds.\n");
  fmt::print("{:<20} {:>15} {:>15} {:>15} {:>12} {:>12} {:>12} {:>15}\n", "", "racks / least", "to slurm, by seed",
             "fewest possible", "no choice %", "one rack %", "one block %", "blocks / least");
  Outcomes peer;
  for (const auto& [name, make] : rows) {
    const Outcomes found = run_policy(options.plan, kPacking, make);
    if (peer.empty()) peer = found;
    fmt::print("{:<20} {:>15} {:>15} {:>15} {:>12} {:>12} {:>12} {:>15}\n", name,
               shown(found, &Outcome::racks_over_least, 1, 3), shown_ratio(found, peer),
               shown(found, &Outcome::fewest_over_least, 1, 3), shown(found, &Outcome::no_choice, 100, 1),
               shown(found, &Outcome::in_one_rack, 100, 1), shown(found, &Outcome::in_one_block, 100, 1),
               shown(found, &Outcome::blocks_over_least, 1, 3));
    std::fflush(stdout);
  }
}

int report(const Options& options) {
  Report report(options.plan, options.policies);
  report.packing(run(options.plan, kPacking, options.policies));
  report.waiting(run(options.plan, kWaiting, options.policies));
  for (const double load : {0.92, 0.75}) {
    report.replacement(load, run(options.plan, {"replacement", load, Mode::kPreferred, 0.05}, options.policies));
  }
  report.rings();
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << report.json().dump(2) << "\n";
    if (!file) {
      fmt::print(stderr, "{}: cannot be written\n", options.json);
      return 2;
    }
  }
  return report.rings_are_ideal() ? 0 : 1;
}

int replay(const Options& options) {
  std::vector<std::vector<Gang>> gangs;
  for (const std::string& path : options.traces) {
    auto read = read_trace(path, options.plan.site, 0.95, Mode::kPreferred);
    if (!read) {
      fmt::print(stderr, "{}\n", read.error().message);
      return 2;
    }
    gangs.push_back(std::move(*read));
  }
  Report report(options.plan, options.policies);
  report.packing(run(options.plan, gangs, options.policies));
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep::bench;
  CLI::App app{"Packing over time, replacements and rings, against other schedulers' rules"};
  Options options;
  options.plan.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  app.add_option("--gangs", options.plan.gangs, "gangs of a simulation")->check(CLI::Range(100, 1'000'000));
  app.add_option("--tail", options.plan.tail, "probability of a size of 2^k: 2^(-tail k)")->check(CLI::Range(0.0, 4.0));
  app.add_option("--seeds", options.plan.seeds, "one simulation for each");
  app.add_option("--policies", options.policies, "which to compare")->check(CLI::IsMember(policy_names()));
  app.add_option("--threads", options.plan.threads, "simulations at once")->check(CLI::Range(1, 256));
  app.add_option("--trace", options.traces, "traces of gavel instead of drawn gangs, on 512 GPUs")
      ->check(CLI::ExistingFile);
  app.add_option("--json", options.json, "a file for all figures; plot.py draws it");
  CLI::Option* const tune_flag =
      app.add_flag("--tune", options.tune, "compare weights of the objective, with seeds that the report does not use");
  CLI::Option* const bound_flag =
      app.add_flag("--bound", options.bound, "what is left to gain, by an oracle that knows when gangs end");
  app.add_flag("--quick", options.quick, "two seeds, 400 gangs on 512 nodes: to see that it works");
  bound_flag->excludes(tune_flag);
  CLI11_PARSE(app, argc, argv);
  if (options.quick) {
    options.plan.site.blocks = 2;
    options.plan.gangs = 400;
    options.plan.seeds.resize(std::min<std::size_t>(options.plan.seeds.size(), 2));
  }
  if (options.tune) {
    if (app.count("--seeds") == 0) options.plan.seeds = kTuningSeeds;
    tune(options);
    return 0;
  }
  if (options.bound) {
    bound(options);
    return 0;
  }
  if (!options.traces.empty()) {
    options.plan.site = {2, 8, 4, 8};
    return replay(options);
  }
  return report(options);
}
