#include "operator/cli/bench_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "operator/cli/text.h"

namespace lockstep::cli {

BenchEstimate estimate(const Cell& cell, const BenchOptions& options, const BenchProbe& probe, int cpus) {
  const auto share = [&](int threads) { return std::max(1.0, static_cast<double>(threads) / std::max(cpus, 1)); };
  const auto steps = static_cast<double>(options.warmup_steps + options.steps);
  const double run = probe.start_seconds * share(cell.workers) +
                     steps * probe.step_seconds * share(cell.workers * options.threads) /
                         share(options.threads);  // the probe had the threads of one worker
  return {.seconds = options.runs * run, .memory_bytes = cell.workers * probe.memory_bytes};
}

double remaining_seconds(const std::vector<double>& estimates, size_t done, double spent_seconds) {
  const auto middle = estimates.begin() + static_cast<std::ptrdiff_t>(std::min(done, estimates.size()));
  const double expected = std::accumulate(estimates.begin(), middle, 0.0);
  const double left = std::accumulate(middle, estimates.end(), 0.0);
  return expected > 0 && spent_seconds > 0 ? left * spent_seconds / expected : left;
}

std::string dry_run_table(const std::vector<Cell>& cells, const std::vector<BenchEstimate>& estimates,
                          const std::vector<bool>& measured) {
  std::vector<std::vector<std::string>> lines = {{"MODEL", "DATA", "WORKERS", "MEMORY", "TIME"}};
  double seconds = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    lines.push_back(
        {cells[i].model, cells[i].data, fmt::format("{}", cells[i].workers),
         measured[i] ? "-" : fmt::format("{:.1f} MiB", static_cast<double>(estimates[i].memory_bytes) / (1 << 20)),
         measured[i] ? "measured" : clock_time(estimates[i].seconds)});
    if (!measured[i]) seconds += estimates[i].seconds;
  }
  return table(lines) +
         fmt::format("\n{} cell{}, about {} in all\n", cells.size(), cells.size() == 1 ? "" : "s", clock_time(seconds));
}

}  // namespace lockstep::cli
