#include "operator/cli/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "operator/cli/line_plot.h"

namespace lockstep::cli {

std::string scaling_svg(const std::vector<BenchRow>& rows) {
  std::map<std::pair<std::string, std::string>, PlotLine> lines;  // by model and data
  for (const BenchRow& row : rows) {
    if (!row.efficiency) continue;
    PlotLine& line = lines[{row.model, row.data}];
    line.name = fmt::format("{}, {}", row.model, std::filesystem::path(row.data).filename().string());
    line.points.push_back({.x = static_cast<double>(row.workers),
                           .y = *row.efficiency,
                           .error = *row.efficiency * row.error / std::max(row.speed, 1e-300)});
  }
  LinePlot plot{.title = "scaling efficiency T_n / (n T_1)", .x = "workers", .unit = " %", .scale = 100, .lines = {}};
  for (auto& [name, line] : lines) plot.lines.push_back(std::move(line));
  return line_plot(std::move(plot));
}

}  // namespace lockstep::cli
