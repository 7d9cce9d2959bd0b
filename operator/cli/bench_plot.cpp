#include "operator/cli/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include "operator/cli/loss_curve.h"
#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

constexpr double kPlotLeft = 64, kPlotRight = 520, kPlotTop = 40, kPlotBottom = 312;
constexpr std::array<const char*, 6> kColours = {"#1a73e8", "#e8710a", "#188038", "#d93025", "#9334e6", "#5f6368"};

}  // namespace

std::string scaling_svg(const std::vector<BenchRow>& rows) {
  std::map<std::pair<std::string, std::string>, std::vector<BenchRow>> lines;
  double most_workers = 2, top = 1;
  for (const BenchRow& row : rows) {
    if (!row.efficiency) continue;
    lines[{row.model, row.data}].push_back(row);
    most_workers = std::max(most_workers, static_cast<double>(row.workers));
    top = std::max(top, *row.efficiency * (1 + row.error / std::max(row.speed, 1e-300)));
  }
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"360\" viewBox=\"0 0 720 360\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"720\" height=\"360\" fill=\"#ffffff\"/>\n"
      "<text x=\"64\" y=\"24\" font-size=\"14\" fill=\"#1c1e21\">scaling efficiency T_n / (n T_1)</text>\n";
  const auto x = [&](double workers) {
    return kPlotLeft + (workers - 1) / (most_workers - 1) * (kPlotRight - kPlotLeft);
  };
  const auto y = [&](double efficiency) { return kPlotBottom - efficiency / top * (kPlotBottom - kPlotTop); };
  for (const double share : round_ticks(0, top, 6)) {
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"#e4e6eb\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\" fill=\"#5f6368\">{5:g} %</text>\n",
        kPlotLeft, y(share), kPlotRight, kPlotLeft - 8, y(share) + 4, 100 * share);
  }
  for (const double workers : round_ticks(1, most_workers, 8)) {
    if (workers != static_cast<int>(workers)) continue;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#5f6368\">{:g}</text>\n",
                       x(workers), kPlotBottom + 18, workers);
  }
  size_t number = 0;
  for (const auto& [name, points] : lines) {
    const char* colour = kColours[number % kColours.size()];
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"", colour);
    for (const BenchRow& row : points) svg += fmt::format("{:.1f},{:.1f} ", x(row.workers), y(*row.efficiency));
    svg += "\"/>\n";
    for (const BenchRow& row : points) {
      const double bar = *row.efficiency * row.error / std::max(row.speed, 1e-300);
      svg += fmt::format(
          "<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"3\" fill=\"{2}\"/>"
          "<path d=\"M{0:.1f} {3:.1f}V{4:.1f}\" stroke=\"{2}\"/>\n",
          x(row.workers), y(*row.efficiency), colour, y(*row.efficiency - bar), y(*row.efficiency + bar));
    }
    const std::string data = std::filesystem::path(name.second).filename();
    svg += fmt::format("<text x=\"536\" y=\"{}\" fill=\"{}\">{}, {}</text>\n", 48 + 18 * number, colour,
                       xml_text(name.first), xml_text(data));
    ++number;
  }
  svg += fmt::format("<text x=\"{:.0f}\" y=\"350\" text-anchor=\"middle\" fill=\"#1c1e21\">workers</text>\n",
                     (kPlotLeft + kPlotRight) / 2);
  return svg + "</svg>\n";
}

}  // namespace lockstep::cli
