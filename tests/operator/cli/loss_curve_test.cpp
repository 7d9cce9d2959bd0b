#include "operator/cli/loss_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::cli::loss_curve_test {
namespace {

LossCurve falling() {
  LossCurve curve;
  curve.title = "a <job>";
  for (int step = 1; step <= 200; ++step) curve.training.push_back({step, 2 + 2 * std::exp(-step / 40.0)});
  return curve;
}

TEST(LossCurve, the_later_value_of_a_step_counts_and_a_nan_does_not) {
  const auto points =
      cleaned({{3, 1}, {1, 5}, {3, 2}, {2, std::nan("")}, {4, std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(points, (std::vector<LossPoint>{{1, 5}, {3, 2}}));
}

TEST(LossCurve, ticks_are_round_and_inside) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(1.1, 3.9, 3), (std::vector<double>{2, 3}));
  EXPECT_EQ(round_ticks(2, 2, 3), (std::vector<double>{2}));
}

TEST(LossCurve, in_stars_it_falls_from_the_left_top_to_the_right_bottom) {
  const std::string drawn = draw_for_terminal(falling(), 40, 8, true);
  std::vector<std::string> lines;
  for (size_t at = 0; at < drawn.size(); at = drawn.find('\n', at) + 1) {
    lines.push_back(drawn.substr(at, drawn.find('\n', at) - at));
  }
  ASSERT_EQ(lines.size(), 9U);
  EXPECT_EQ(lines[0].substr(0, 12), "     3.95 | ");
  EXPECT_EQ(lines[0][12], '*');
  EXPECT_EQ(lines[7].back(), '*');
  EXPECT_EQ(lines[7].size(), 12U + 40U);
  EXPECT_EQ(lines[8].substr(12, 1), "1");
  EXPECT_TRUE(lines[8].ends_with("step 200"));
}

TEST(LossCurve, braille_has_eight_dots_a_character) {
  const std::string drawn = draw_for_terminal(falling(), 40, 8, false);
  EXPECT_NE(drawn.find("\xE2\xA0"), std::string::npos);
  EXPECT_EQ(drawn.find('*'), std::string::npos);
}

TEST(LossCurve, few_or_equal_points_do_not_break_it) {
  LossCurve curve;
  EXPECT_EQ(draw_for_terminal(curve, 40, 8, true), "");
  curve.training = {{1, 2}};
  EXPECT_EQ(draw_for_terminal(curve, 40, 8, true), "");
  curve.training = {{1, 2}, {2, 2}};
  EXPECT_NE(draw_for_terminal(curve, 40, 8, true), "");
  EXPECT_NE(draw_svg(curve).find("polyline"), std::string::npos);
}

TEST(LossCurve, the_svg_has_both_lines_the_restarts_and_an_escaped_title) {
  LossCurve curve = falling();
  curve.held_out = {{1, 4}, {200, 2.1}};
  curve.restarts = {100};
  const std::string svg = draw_svg(curve);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("a &lt;job&gt;"), std::string::npos);
  EXPECT_NE(svg.find(">restart<"), std::string::npos);
  EXPECT_NE(svg.find("held-out loss"), std::string::npos);
  EXPECT_NE(draw_svg({}).find("no step was reported"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli::loss_curve_test
