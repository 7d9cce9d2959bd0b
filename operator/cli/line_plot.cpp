#include "operator/cli/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "operator/cli/loss_curve.h"
#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

constexpr double kPlotLeft = 64, kPlotRight = 520, kPlotTop = 40, kPlotBottom = 312;
constexpr std::array<const char*, 8> kColours = {"#1a73e8", "#e8710a", "#188038", "#d93025",
                                                 "#9334e6", "#5f6368", "#00838f", "#a1602a"};

}  // namespace

std::string line_plot(LinePlot plot) {
  for (const PlotLine& line : plot.lines) {
    for (const PlotPoint& point : line.points) {
      plot.most_x = std::max(plot.most_x, point.x);
      plot.top = std::max(plot.top, point.y + point.error);
    }
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"360\" viewBox=\"0 0 720 360\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"720\" height=\"360\" fill=\"#ffffff\"/>\n"
      "<text x=\"64\" y=\"24\" font-size=\"14\" fill=\"#1c1e21\">{}</text>\n",
      xml_text(plot.title));
  const auto x = [&](double value) { return kPlotLeft + (value - 1) / (plot.most_x - 1) * (kPlotRight - kPlotLeft); };
  const auto y = [&](double value) { return kPlotBottom - value / plot.top * (kPlotBottom - kPlotTop); };
  for (const double tick : round_ticks(0, plot.top, 6)) {
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}H{2:.1f}\" stroke=\"#e4e6eb\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\" fill=\"#5f6368\">{5:g}{6}</text>\n",
        kPlotLeft, y(tick), kPlotRight, kPlotLeft - 8, y(tick) + 4, plot.scale * tick, plot.unit);
  }
  for (const double tick : round_ticks(1, plot.most_x, 8)) {
    if (tick != static_cast<int>(tick)) continue;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#5f6368\">{:g}</text>\n", x(tick),
                       kPlotBottom + 18, tick);
  }
  size_t number = 0;
  for (const PlotLine& line : plot.lines) {
    const char* colour = kColours[number % kColours.size()];
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"", colour);
    for (const PlotPoint& point : line.points) svg += fmt::format("{:.1f},{:.1f} ", x(point.x), y(point.y));
    svg += "\"/>\n";
    for (const PlotPoint& point : line.points) {
      svg += fmt::format(
          "<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"3\" fill=\"{2}\"/>"
          "<path d=\"M{0:.1f} {3:.1f}V{4:.1f}\" stroke=\"{2}\"/>\n",
          x(point.x), y(point.y), colour, y(point.y - point.error), y(point.y + point.error));
    }
    svg +=
        fmt::format("<text x=\"536\" y=\"{}\" fill=\"{}\">{}</text>\n", 48 + 18 * number, colour, xml_text(line.name));
    ++number;
  }
  svg += fmt::format("<text x=\"{:.0f}\" y=\"350\" text-anchor=\"middle\" fill=\"#1c1e21\">{}</text>\n",
                     (kPlotLeft + kPlotRight) / 2, xml_text(plot.x));
  return svg + "</svg>\n";
}

}  // namespace lockstep::cli
