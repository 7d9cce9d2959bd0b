#include "operator/cli/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

struct Range {
  double low, high;
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

struct Frame {
  Range steps, losses;
};

Frame frame_of(const std::vector<LossPoint>& training, const std::vector<LossPoint>& held_out) {
  constexpr double kMost = std::numeric_limits<double>::infinity();
  Frame frame{{kMost, -kMost}, {kMost, -kMost}};
  for (const auto* points : {&training, &held_out}) {
    for (const LossPoint& point : *points) {
      const auto step = static_cast<double>(point.step);
      frame.steps = {std::min(frame.steps.low, step), std::max(frame.steps.high, step)};
      frame.losses = {std::min(frame.losses.low, point.loss), std::max(frame.losses.high, point.loss)};
    }
  }
  return frame;
}

// A canvas of dots; y counts from the top.
class Dots {
 public:
  Dots(int columns, int rows, bool ascii)
      : columns_(columns), rows_(rows), ascii_(ascii), cells_(static_cast<size_t>(columns * rows)) {}
  int width() const { return ascii_ ? columns_ : columns_ * 2; }
  int height() const { return ascii_ ? rows_ : rows_ * 4; }

  void set(int x, int y) {
    if (x < 0 || y < 0 || x >= width() || y >= height()) return;
    static constexpr unsigned kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (ascii_) {
      cell(x, y) = 1;
    } else {
      cell(x / 2, y / 4) |= kBits[y % 4][x % 2];
    }
  }

  std::string row(int y) const {
    std::string text;
    for (int x = 0; x < columns_; ++x) {
      const unsigned bits = cells_[static_cast<size_t>(y * columns_ + x)];
      if (ascii_) {
        text += bits != 0 ? '*' : ' ';
      } else if (bits == 0) {
        text += ' ';
      } else {  // U+2800 + bits in UTF-8
        text += '\xE2';
        text += static_cast<char>(0xA0 | (bits >> 6));
        text += static_cast<char>(0x80 | (bits & 0x3F));
      }
    }
    const auto end = text.find_last_not_of(' ');
    return text.substr(0, end == std::string::npos ? 0 : end + 1);
  }

 private:
  unsigned& cell(int x, int y) { return cells_[static_cast<size_t>(y * columns_ + x)]; }
  int columns_, rows_;
  bool ascii_;
  std::vector<unsigned> cells_;
};

}  // namespace

std::vector<LossPoint> cleaned(const std::vector<LossPoint>& points) {
  std::map<std::int64_t, double> by_step;
  for (const LossPoint& point : points) {
    if (std::isfinite(point.loss)) by_step[point.step] = point.loss;
  }
  std::vector<LossPoint> result;
  for (const auto& [step, loss] : by_step) result.push_back({step, loss});
  return result;
}

std::vector<double> round_ticks(double low, double high, int most) {
  if (!(high > low) || most < 1) return {low};
  const double rough = (high - low) / most;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double width = power * 10;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      width = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (double k = std::ceil(low / width - 1e-9); k * width <= high + width * 1e-9; ++k) {
    ticks.push_back(k == 0 ? 0.0 : k * width);
  }
  return ticks;
}

std::string draw_for_terminal(const LossCurve& curve, int columns, int rows, bool ascii) {
  const std::vector<LossPoint> training = cleaned(curve.training);
  if (training.size() < 2 || columns < 2 || rows < 2) return "";
  const Frame frame = frame_of(training, {});
  Dots dots(columns, rows, ascii);
  // The mean of the points in a column of dots, joined by vertical strokes.
  std::vector<std::pair<double, int>> sums(static_cast<size_t>(dots.width()), {0.0, 0});
  for (const LossPoint& point : training) {
    const auto x =
        static_cast<size_t>(std::lround(frame.steps.share(static_cast<double>(point.step)) * (dots.width() - 1)));
    sums[x].first += point.loss;
    ++sums[x].second;
  }
  int last_x = -1, last_y = 0;
  for (int x = 0; x < dots.width(); ++x) {
    const auto& [sum, count] = sums[static_cast<size_t>(x)];
    if (count == 0) continue;
    const int y = static_cast<int>(std::lround((1 - frame.losses.share(sum / count)) * (dots.height() - 1)));
    if (last_x < 0) dots.set(x, y);
    for (int between = last_x + 1; last_x >= 0 && between <= x; ++between) {
      const double share = static_cast<double>(between - last_x) / (x - last_x);
      const double before = static_cast<double>(between - 1 - last_x) / (x - last_x);
      const int from = static_cast<int>(std::lround(last_y + (y - last_y) * before));
      const int to = static_cast<int>(std::lround(last_y + (y - last_y) * share));
      for (int stroke = std::min(from, to); stroke <= std::max(from, to); ++stroke) {
        if (stroke != from || from == to) dots.set(between, stroke);
      }
    }
    last_x = x;
    last_y = y;
  }
  std::string text;
  for (int y = 0; y < rows; ++y) {
    const double loss = frame.losses.high - (frame.losses.high - frame.losses.low) * y / (rows - 1);
    const bool labelled = y == 0 || y == rows - 1 || y == rows / 2;
    text += fmt::format("{:>9} {} {}\n", labelled ? fmt::format("{:.3g}", loss) : "", ascii ? "|" : "┤", dots.row(y));
  }
  const std::string first = fmt::format("{:.0f}", frame.steps.low);
  const std::string last = fmt::format("step {:.0f}", frame.steps.high);
  text += fmt::format("{:>9}   {}{:>{}}\n", "", first, last,
                      std::max<size_t>(1, static_cast<size_t>(columns) - first.size()));
  return text;
}

std::string draw_svg(const LossCurve& curve) {
  constexpr double kLeft = 64, kRight = 704, kTop = 40, kBottom = 312;
  const std::vector<LossPoint> training = cleaned(curve.training);
  const std::vector<LossPoint> held_out = cleaned(curve.held_out);
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"360\" viewBox=\"0 0 720 360\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"720\" height=\"360\" fill=\"#ffffff\"/>\n";
  svg += fmt::format("<text x=\"64\" y=\"24\" font-size=\"14\" fill=\"#1c1e21\">{}</text>\n", xml_text(curve.title));
  if (training.empty() && held_out.empty()) {
    return svg + "<text x=\"64\" y=\"180\" fill=\"#5f6368\">no step was reported</text>\n</svg>\n";
  }
  const Frame frame = frame_of(training, held_out);
  const auto x = [&](double step) { return kLeft + frame.steps.share(step) * (kRight - kLeft); };
  const auto y = [&](double loss) { return kBottom - frame.losses.share(loss) * (kBottom - kTop); };
  for (const double loss : round_ticks(frame.losses.low, frame.losses.high, 6)) {
    svg += fmt::format(
        "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#e4e6eb\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#5f6368\">{:g}</text>\n",
        kLeft, y(loss), kRight, kLeft - 8, y(loss) + 4, loss);
  }
  for (const double step : round_ticks(frame.steps.low, frame.steps.high, 8)) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#5f6368\">{:g}</text>\n", x(step),
                       kBottom + 18, step);
  }
  for (const std::int64_t step : curve.restarts) {
    const double at = x(std::clamp(static_cast<double>(step), frame.steps.low, frame.steps.high));
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#d93025\" stroke-dasharray=\"4 3\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" fill=\"#d93025\">restart</text>\n",
        at, kTop, kBottom, at + 4, kTop + 10);
  }
  const auto line = [&](const std::vector<LossPoint>& points, const char* colour, const char* width) {
    if (points.empty()) return;
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" points=\"", colour, width);
    for (const LossPoint& point : points) {
      svg += fmt::format("{:.1f},{:.1f} ", x(static_cast<double>(point.step)), y(point.loss));
    }
    svg += "\"/>\n";
  };
  line(training, "#1a73e8", "1.5");
  line(held_out, "#e8710a", "2");
  svg += fmt::format("<text x=\"{:.0f}\" y=\"350\" text-anchor=\"middle\" fill=\"#1c1e21\">step</text>\n",
                     (kLeft + kRight) / 2);
  if (!training.empty()) svg += "<text x=\"620\" y=\"24\" fill=\"#1a73e8\">training loss</text>\n";
  if (!held_out.empty()) svg += "<text x=\"520\" y=\"24\" fill=\"#e8710a\">held-out loss</text>\n";
  return svg + "</svg>\n";
}

}  // namespace lockstep::cli
