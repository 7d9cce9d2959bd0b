#include "tests/bench/placement/packing_report.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::bench {

Report::Report(const Plan& plan, std::vector<std::string> policies) : policies_(std::move(policies)) {
  const Site& site = plan.site;
  fmt::print(
      "{} nodes of {} GPUs: {} blocks of {} racks of {} nodes. Mean ± 95 % confidence interval over the seeds.\n",
      site.all_nodes(), site.gpus, site.blocks, site.racks, site.nodes);
  json_["site"] = {{"blocks", site.blocks}, {"racks", site.racks}, {"nodes", site.nodes}, {"gpus", site.gpus}};
  json_["gangs"] = plan.gangs;
  json_["tail"] = plan.tail;
  json_["seeds"] = plan.seeds;
}

void Report::table(const char* experiment, const std::vector<Column>& columns,
                   const std::map<std::string, Outcomes>& found) {
  fmt::print("{:<17}", "");
  for (const Column& column : columns) fmt::print(" {:>19}", column.title);
  fmt::print("\n");
  for (const std::string& policy : policies_) {
    fmt::print("{:<17}", policy);
    for (const Column& column : columns) {
      const Estimate value = over_seeds(found.at(policy), column.value);
      fmt::print(" {:>19}", fmt::format("{:.{}f} ± {:.{}f}", value.mean * column.unit, column.digits,
                                        value.half * column.unit, column.digits));
      json_[experiment][policy][column.key] = {{"mean", value.mean * column.unit}, {"half", value.half * column.unit}};
    }
    fmt::print("\n");
  }
  std::fflush(stdout);
}

void Report::compare(const char* experiment, const Column& column, double goal,
                     const std::map<std::string, Outcomes>& found) {
  const auto ours = found.find("lockstep");
  if (ours == found.end()) return;
  std::string best;
  double lowest = 0;
  for (const auto& [policy, outcomes] : found) {
    if (policy == "lockstep") continue;
    const double mean = over_seeds(outcomes, column.value).mean;
    if (best.empty() || mean < lowest) {
      best = policy;
      lowest = mean;
    }
  }
  if (best.empty()) return;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours->second.size(); ++i) {
    const double peer = column.value(found.at(best)[i]);
    ratios.push_back(peer > 0 ? column.value(ours->second[i]) / peer : 1);
  }
  const double ratio = lowest > 0 ? over_seeds(ours->second, column.value).mean / lowest : 1;
  const Estimate by_seed = estimate(ratios);
  fmt::print("{}: lockstep is {:.3f} of the best peer, {} (by seed {:.3f} ± {:.3f}); goal ≤ {:.2f}: {}\n", column.title,
             ratio, best, by_seed.mean, by_seed.half, goal, ratio <= goal ? "met" : "missed");
  json_[experiment]["to_best"] = {{"peer", best}, {"ratio", ratio}, {"half", by_seed.half}, {"goal", goal}};
}

void Report::packing(const std::map<std::string, Outcomes>& found) {
  const std::vector<Column> columns{
      {"racks / least", "racks_over_least", 1, 3, [](const Outcome& o) { return o.racks_over_least.value(); }},
      {"in one rack %", "in_one_rack", 100, 1, [](const Outcome& o) { return o.in_one_rack.value(); }},
      {"in one block %", "in_one_block", 100, 1, [](const Outcome& o) { return o.in_one_block.value(); }},
      {"broken racks %", "broken", 100, 1, [](const Outcome& o) { return o.broken.value(); }},
      {"in use %", "used", 100, 1, [](const Outcome& o) { return o.used; }}};
  fmt::print("\nPacking over time, load 0.95: one rack is preferred\n");
  table("packing", columns, found);
  if (found.begin()->second.front().racks_over_least.count > 0) compare("packing", columns[0], 0.92, found);
  add_rings(found);
}

void Report::waiting(const std::map<std::string, Outcomes>& found) {
  const std::vector<Column> columns{
      {"wait s", "wait", 1, 1, [](const Outcome& o) { return o.wait.value(); }},
      {"racks / least", "racks_over_least", 1, 3, [](const Outcome& o) { return o.racks_over_least.value(); }},
      {"broken racks %", "broken", 100, 1, [](const Outcome& o) { return o.broken.value(); }},
      {"in use %", "used", 100, 1, [](const Outcome& o) { return o.used; }}};
  fmt::print("\nWaiting, load 0.85: one rack is required of up to 16 nodes, one block of up to 256\n");
  table("waiting", columns, found);
  compare("waiting", columns[0], 1.0, found);
  add_rings(found);
}

void Report::replacement(double load, const std::map<std::string, Outcomes>& found) {
  const std::vector<Column> columns{
      {"stay in block %", "stayed", 100, 1, [](const Outcome& o) { return o.stayed.value(); }},
      {"block has room %", "could_stay", 100, 1, [](const Outcome& o) { return o.could_stay.value(); }},
      {"replacements", "count", 1, 0, [](const Outcome& o) { return static_cast<double>(o.stayed.count); }}};
  const std::string experiment = fmt::format("replacement {:.2f}", load);
  fmt::print("\nReplacements of failed nodes, load {:.2f}: gangs inside one block, one rack is preferred\n", load);
  table(experiment.c_str(), columns, found);
  const double goal = load > 0.9 ? 69 : 89;
  for (const std::string& policy : policies_) {
    json_[experiment][policy]["anchored"] = policy_of(policy, 1)->anchored();
  }
  if (const auto ours = found.find("lockstep"); ours != found.end()) {
    const double stay = 100 * over_seeds(ours->second, columns[0].value).mean;
    fmt::print("goal ≥ {:.0f} %: {}. lockstep and koordinator place replacements near the survivors\n", goal,
               stay >= goal ? "met" : "missed");
    json_[experiment]["goal"] = goal;
  }
  add_rings(found);
}

void Report::add_rings(const std::map<std::string, Outcomes>& found) {
  for (const auto& [policy, outcomes] : found) {
    for (const Outcome& outcome : outcomes) {
      rings_.ranks += outcome.ranks;
      rings_.by_name += outcome.by_name;
      rings_.by_slot += outcome.by_slot;
      rings_.least += outcome.least;
      rings_.count += outcome.rings;
      rings_.above_least += outcome.above_least;
    }
  }
  const auto both = [](const Crossings& of) { return nlohmann::json{{"racks", of.racks}, {"blocks", of.blocks}}; };
  json_["rings"] = {{"count", rings_.count},           {"above_least", rings_.above_least},
                    {"ranks", both(rings_.ranks)},     {"by_name", both(rings_.by_name)},
                    {"by_slot", both(rings_.by_slot)}, {"least", both(rings_.least)}};
}

void Report::rings() const {
  fmt::print("\nRings over the pods of all {} placements above, of every policy: edges between domains\n",
             rings_.count);
  fmt::print("{:<17} {:>12} {:>8} {:>12} {:>8}\n", "", "racks", "/ least", "blocks", "/ least");
  const auto line = [&](const char* name, const Crossings& of) {
    const auto over = [](std::int64_t a, std::int64_t b) {
      return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 1;
    };
    fmt::print("{:<17} {:>12} {:>8.3f} {:>12} {:>8.3f}\n", name, of.racks, over(of.racks, rings_.least.racks),
               of.blocks, over(of.blocks, rings_.least.blocks));
  };
  line("order of ranks", rings_.ranks);
  line("by node name", rings_.by_name);
  line("random", rings_.by_slot);
  line("least possible", rings_.least);
  fmt::print("rings whose order of ranks crosses more often than the least: {}\n", rings_.above_least);
}

bool Report::rings_are_ideal() const {
  return rings_.above_least == 0 && rings_.ranks == rings_.least;
}

}  // namespace lockstep::bench
