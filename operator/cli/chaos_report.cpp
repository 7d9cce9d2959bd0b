#include "operator/cli/chaos_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostViolations = 10;
constexpr std::int64_t kMostRestarts = 10'000;  // what the schema of a job allows
constexpr std::int64_t kDefaultRestarts = 10;   // the schema's default
constexpr std::int64_t kBefore = 50'000'000;    // ns: a fault this long before the lost time can be its cause

std::int64_t ns_of(MonotonicTime when) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
}

// The lost time of each fault that was made: a stretch belongs to the first fault in it, or to the last one before it.
std::vector<std::int64_t> costs(const ChaosReport& report) {
  std::vector<std::int64_t> cost(report.events.size(), 0);
  for (const LostTime& lost : report.ledger.lost) {
    size_t guilty = report.events.size();
    for (size_t i = 0; i < report.events.size(); ++i) {
      const std::int64_t when = ns_of(report.events[i].when);
      if (!report.events[i].made || when > lost.end_ns) continue;
      guilty = i;
      if (when >= lost.end_ns - lost.ns - kBefore) break;
    }
    if (guilty < cost.size()) cost[guilty] += lost.ns;
  }
  return cost;
}

std::string milliseconds(std::int64_t ns) {
  return fmt::format("{} ms", ns / 1'000'000);
}

struct Kind {
  int made = 0, left_out = 0;
  std::vector<std::int64_t> costs;
};

std::map<FaultKind, Kind> by_kind(const ChaosReport& report) {
  std::map<FaultKind, Kind> kinds;
  const auto cost = costs(report);
  for (size_t i = 0; i < report.events.size(); ++i) {
    Kind& kind = kinds[report.events[i].fault.kind];
    (report.events[i].made ? kind.made : kind.left_out) += 1;
    if (report.events[i].made) kind.costs.push_back(cost[i]);
  }
  for (auto& [name, kind] : kinds) std::sort(kind.costs.begin(), kind.costs.end());
  return kinds;
}

int made(const ChaosReport& report) {
  return static_cast<int>(
      std::count_if(report.events.begin(), report.events.end(), [](const auto& it) { return it.made; }));
}

}  // namespace

std::string describe(const ChaosEvent& event, int faults) {
  return fmt::format("chaos {} of {}, after step {}: {}{}", event.number, faults, event.step,
                     event.made ? "" : fmt::format("could not {}: ", name_of(event.fault.kind)), event.what);
}

std::string chaos_text(const ChaosReport& report) {
  std::string text =
      fmt::format("chaos with seed {}: {} of {} faults were made", report.wish.seed, made(report), report.wish.faults);
  if (report.left > 0) text += fmt::format("; the job ended before the last {}", report.left);
  text += "\n";
  std::vector<std::vector<std::string>> rows = {{"FAULT", "MADE", "LEFT OUT", "LOST, MEDIAN", "LOST, WORST"}};
  for (const auto& [kind, of] : by_kind(report)) {
    rows.push_back({name_of(kind), std::to_string(of.made), std::to_string(of.left_out),
                    of.costs.empty() ? "-" : milliseconds(of.costs[of.costs.size() / 2]),
                    of.costs.empty() ? "-" : milliseconds(of.costs.back())});
  }
  if (rows.size() > 1) text += table(rows);
  text += fmt::format("restarts: {}, of which {} charged to restart.maxRestarts ({} in this run)\n", report.restarts,
                      report.charged, report.max_restarts);
  text += fmt::format("goodput: {:.1f} % of {:.1f} s went into the {} steps that count; {} done again\n",
                      100 * report.ledger.goodput(), static_cast<double>(report.ledger.wall_ns) / 1e9,
                      report.ledger.effective.size(), report.ledger.done_again);
  const auto& violations = report.ledger.violations;
  for (size_t i = 0; i < std::min(violations.size(), kMostViolations); ++i) text += "ledger: " + violations[i] + "\n";
  if (violations.size() > kMostViolations) {
    text += fmt::format("ledger: and {} more\n", violations.size() - kMostViolations);
  }
  text += fmt::format("verdict: {}; {}\n", report.succeeded ? "the job finished" : "the job did not finish",
                      violations.empty()
                          ? "each step was committed once, whole, with bitwise identical weights on all ranks"
                          : fmt::format("{} violation{}", violations.size(), violations.size() == 1 ? "" : "s"));
  return text;
}

nlohmann::json chaos_json(const ChaosReport& report) {
  using nlohmann::json;
  const auto cost = costs(report);
  json events = json::array();
  for (size_t i = 0; i < report.events.size(); ++i) {
    const ChaosEvent& event = report.events[i];
    events.push_back({{"number", event.number},
                      {"kind", name_of(event.fault.kind)},
                      {"slot", event.fault.slot},
                      {"step", event.step},
                      {"ns", ns_of(event.when)},
                      {"made", event.made},
                      {"what", event.what},
                      {"lostMs", static_cast<double>(cost[i]) / 1e6}});
  }
  return {{"seed", report.wish.seed},
          {"faults", report.wish.faults},
          {"made", made(report)},
          {"notReached", report.left},
          {"events", std::move(events)},
          {"violations", report.ledger.violations},
          {"steps", report.ledger.effective.size()},
          {"doneAgain", report.ledger.done_again},
          {"seconds", static_cast<double>(report.ledger.wall_ns) / 1e9},
          {"goodput", report.ledger.goodput()},
          {"restarts", report.restarts},
          {"charged", report.charged},
          {"maxRestarts", report.max_restarts},
          {"good", report.good()}};
}

std::int64_t raise_budget(nlohmann::json& job, const std::vector<Fault>& schedule) {
  nlohmann::json& restart = job["spec"]["restart"];
  if (restart.is_null()) restart = nlohmann::json::object();
  const auto more =
      std::count_if(schedule.begin(), schedule.end(), [](const Fault& it) { return may_be_charged(it.kind); });
  const std::int64_t raised = std::min(kMostRestarts, restart.value("maxRestarts", kDefaultRestarts) + more);
  restart["maxRestarts"] = raised;
  return raised;
}

}  // namespace lockstep::cli
