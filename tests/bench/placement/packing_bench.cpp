// What placement does to a cluster over time, against other schedulers' rules. Measured are racks per gang and waiting
// time, replacements that stay in their block, and crossings of rings.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <thread>

#include "tests/bench/placement/packing_report.h"

namespace lockstep::bench {
namespace {

struct Options {
  Plan plan;
  std::vector<std::string> policies = policy_names();
  std::vector<std::string> traces;
  std::string json;
  bool quick = false, tune = false;
};

// The weights that are compared: λ, and of a hole of a block against one of a rack.
void tune(const Options& options) {
  const Experiment packing{"packing", 0.95, Mode::kPreferred, 0}, waiting{"waiting", 0.85, Mode::kRequired, 0};
  const placement::Objective standard = placement::default_objective(2);
  std::vector<placement::Objective> objectives;
  for (const double lambda : {0.0, 1.0, 3.0, 6.0, 12.0, 50.0}) {
    for (const double hole : {0.05, 0.2, 1.0, 5.0}) {
      if (lambda == 0 && hole > 0.05) continue;
      objectives.push_back({standard.span, {hole, 1, 0.1}, lambda});
    }
  }
  fmt::print("{:>8} {:>8} {:>17} {:>12} {:>12} {:>17}\n", "lambda", "hole", "racks / least", "one rack %",
             "one block %", "wait s");
  for (const placement::Objective& objective : objectives) {
    const Outcomes packed = run_objective(options.plan, packing, objective);
    const Outcomes waited = run_objective(options.plan, waiting, objective);
    const auto show = [](const Estimate& value) { return fmt::format("{:.3f} ± {:.3f}", value.mean, value.half); };
    fmt::print("{:>8} {:>8} {:>17} {:>12.1f} {:>12.1f} {:>17}{}\n", objective.lambda, objective.hole[0],
               show(over_seeds(packed, [](const Outcome& o) { return o.racks_over_least.value(); })),
               100 * over_seeds(packed, [](const Outcome& o) { return o.in_one_rack.value(); }).mean,
               100 * over_seeds(packed, [](const Outcome& o) { return o.in_one_block.value(); }).mean,
               show(over_seeds(waited, [](const Outcome& o) { return o.wait.value(); })),
               objective == standard ? "  the default" : "");
    std::fflush(stdout);
  }
}

int report(const Options& options) {
  Report report(options.plan, options.policies);
  report.packing(run(options.plan, {"packing", 0.95, Mode::kPreferred, 0}, options.policies));
  report.waiting(run(options.plan, {"waiting", 0.85, Mode::kRequired, 0}, options.policies));
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
  app.add_flag("--tune", options.tune, "compare weights of the objective, with seeds that the report does not use");
  app.add_flag("--quick", options.quick, "two seeds, 400 gangs on 512 nodes: to see that it works");
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
  if (!options.traces.empty()) {
    options.plan.site = {2, 8, 4, 8};
    return replay(options);
  }
  return report(options);
}
