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
  bool quick = false, tune = false, spans = false, bound = false;
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
    const auto make = [&] { return lockstep_policy(objective); };
    const Outcomes packed = run_policy(options.plan, packing, make);
    const Outcomes waited = run_policy(options.plan, waiting, make);
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

std::string shown(const Outcomes& outcomes, const Mean Outcome::*mean, double unit, int digits) {
  const Estimate value = over_seeds(outcomes, [&](const Outcome& outcome) { return (outcome.*mean).value(); });
  return fmt::format("{:.{}f} ± {:.{}f}", unit * value.mean, digits, unit * value.half, digits);
}

// What spans of a block and weights of its holes are worth in each experiment.
void spans(const Options& options) {
  const Experiment packing{"packing", 0.95, Mode::kPreferred, 0}, waiting{"waiting", 0.85, Mode::kRequired, 0};
  const Experiment busy{"busy", 0.92, Mode::kPreferred, 0.05}, calm{"calm", 0.75, Mode::kPreferred, 0.05};
  fmt::print("{:>8} {:>8} {:>15} {:>15} {:>12} {:>12} {:>14} {:>15} {:>15}\n", "span", "hole", "racks / least",
             "blocks / least", "one rack %", "one block %", "wait s", "stay, 0.92 %", "stay, 0.75 %");
  constexpr std::pair<double, double> kWeights[] = {{10'000, 0.2}, {10'000, 0.05}, {10'000, 0},
                                                    {100, 0.2},    {50, 0.2},      {50, 0}};
  for (const auto& [span, hole] : kWeights) {
    const placement::Objective objective{{span, 100, 1}, {hole, 1, 0.1}, 6};
    const auto make = [&] { return lockstep_policy(objective); };
    const Outcomes packed = run_policy(options.plan, packing, make);
    fmt::print("{:>8} {:>8} {:>15} {:>15} {:>12} {:>12} {:>14} {:>15} {:>15}\n", span, hole,
               shown(packed, &Outcome::racks_over_least, 1, 3), shown(packed, &Outcome::blocks_over_least, 1, 3),
               shown(packed, &Outcome::in_one_rack, 100, 1), shown(packed, &Outcome::in_one_block, 100, 1),
               shown(run_policy(options.plan, waiting, make), &Outcome::wait, 1, 1),
               shown(run_policy(options.plan, busy, make), &Outcome::stayed, 100, 1),
               shown(run_policy(options.plan, calm, make), &Outcome::stayed, 100, 1));
    std::fflush(stdout);
  }
}

// What is left to gain at load 0.95: by the choice of each decision alone, and by knowledge of the gangs that run.
void bound(const Options& options) {
  constexpr double kFewestBlocks = 10'000, kFewestRacks = 50;  // spans of a block
  const placement::Objective standard = placement::default_objective(2);
  const std::vector<std::pair<const char*, std::function<std::unique_ptr<Policy>()>>> rows{
      {"slurm", slurm_tree},
      {"lockstep", [] { return lockstep_policy(); }},
      {"lockstep, few racks",
       [&] {
         return lockstep_policy(placement::Objective{{kFewestRacks, 100, 1}, standard.hole, standard.lambda});
       }},
      {"gangs, few racks", [] { return oracle_policy(Knowledge::kGangs, kFewestRacks); }},
      {"ages, few racks", [] { return oracle_policy(Knowledge::kAges, kFewestRacks); }},
      {"ends", [] { return oracle_policy(Knowledge::kEnds, kFewestBlocks); }},
      {"ends, few racks", [] { return oracle_policy(Knowledge::kEnds, kFewestRacks); }}};
  fmt::print("Load 0.95: one rack is preferred. Mean ± 95 % confidence interval over the seeds.\n");
  fmt::print("{:<20} {:>15} {:>15} {:>15} {:>12} {:>12} {:>12} {:>15}\n", "", "racks / least", "to slurm, by seed",
             "fewest possible", "no choice %", "one rack %", "one block %", "blocks / least");
  Outcomes peer;
  for (const auto& [name, make] : rows) {
    const Outcomes found = run_policy(options.plan, {"packing", 0.95, Mode::kPreferred, 0}, make);
    if (peer.empty()) peer = found;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < found.size(); ++i) {
      ratios.push_back(found[i].racks_over_least.value() / std::max(1.0, peer[i].racks_over_least.value()));
    }
    const Estimate ratio = estimate(ratios);
    fmt::print("{:<20} {:>15} {:>15} {:>15} {:>12} {:>12} {:>12} {:>15}\n", name,
               shown(found, &Outcome::racks_over_least, 1, 3), fmt::format("{:.3f} ± {:.3f}", ratio.mean, ratio.half),
               shown(found, &Outcome::fewest_over_least, 1, 3), shown(found, &Outcome::no_choice, 100, 1),
               shown(found, &Outcome::in_one_rack, 100, 1), shown(found, &Outcome::in_one_block, 100, 1),
               shown(found, &Outcome::blocks_over_least, 1, 3));
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
  CLI::Option* const tune_flag =
      app.add_flag("--tune", options.tune, "compare weights of the objective, with seeds that the report does not use");
  CLI::Option* const spans_flag =
      app.add_flag("--spans", options.spans, "compare spans and holes of a block, with those seeds");
  CLI::Option* const bound_flag = app.add_flag(
      "--bound", options.bound, "what is left to gain, by an oracle that knows more of the gangs that run");
  app.add_flag("--quick", options.quick, "two seeds, 400 gangs on 512 nodes: to see that it works");
  spans_flag->excludes(tune_flag);
  bound_flag->excludes(tune_flag)->excludes(spans_flag);
  CLI11_PARSE(app, argc, argv);
  if (options.quick) {
    options.plan.site.blocks = 2;
    options.plan.gangs = 400;
    options.plan.seeds.resize(std::min<std::size_t>(options.plan.seeds.size(), 2));
  }
  if (options.tune || options.spans) {
    if (app.count("--seeds") == 0) options.plan.seeds = kTuningSeeds;
    options.tune ? tune(options) : spans(options);
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
