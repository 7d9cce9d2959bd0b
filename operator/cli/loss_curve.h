// The loss over the steps, drawn in a terminal and as an SVG file. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::cli {

struct LossPoint {
  std::int64_t step = 0;
  double loss = 0;  // not finite: left out

  bool operator==(const LossPoint&) const = default;
};

struct LossCurve {
  std::string title;
  std::vector<LossPoint> training;     // by step; a step may be there twice after a restart: the later one counts
  std::vector<LossPoint> held_out;     // the same on data that is not trained on; may be empty
  std::vector<std::int64_t> restarts;  // steps at which the job continued after a failure
};

// Sorted by step with one point each (the later one), without losses that are not finite.
std::vector<LossPoint> cleaned(const std::vector<LossPoint>& points);

// `columns` x `rows` characters plus axes, lines ending with '\n'; empty with fewer than two points. In braille (two
// by four dots a character) or, with `ascii`, in stars.
std::string draw_for_terminal(const LossCurve& curve, int columns, int rows, bool ascii);

// A whole SVG document, 720 x 360; a frame with a note if there are no points.
std::string draw_svg(const LossCurve& curve);

// Ends of round steps (1, 2 or 5 times a power of ten) that cover [low, high] with at most `most` intervals.
std::vector<double> round_ticks(double low, double high, int most);

}  // namespace lockstep::cli
