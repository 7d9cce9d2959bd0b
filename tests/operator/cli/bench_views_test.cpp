#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/cli/bench_plot.h"
#include "operator/cli/bench_trace.h"

namespace lockstep::cli::bench_views_test {
namespace {

BenchRow row_of(const std::string& model, int workers, double efficiency) {
  return {.model = model,
          .data = "synthetic",
          .workers = workers,
          .precision = {},
          .transport = {},
          .speed = 100,
          .error = 10,
          .single = 100,
          .efficiency = efficiency};
}

TEST(BenchPlot, has_a_line_for_each_model_and_points_where_they_belong) {
  const std::string svg = scaling_svg({row_of("a<b", 1, 1), row_of("a<b", 5, 0.5), row_of("c", 1, 1)});
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  // Efficiency 1 with its error is the top: 1.1 is at 40, 0 at 312.
  EXPECT_NE(svg.find("points=\"64.0,64.7 520.0,188.4 \""), std::string::npos) << svg;
  EXPECT_NE(svg.find("a&lt;b, synthetic"), std::string::npos) << svg;
  EXPECT_NE(svg.find("points=\"64.0,64.7 \""), std::string::npos) << svg;
}

TEST(BenchPlot, of_nothing_is_an_empty_frame) {
  BenchRow alone = row_of("a", 2, 1);
  alone.efficiency.reset();
  const std::string svg = scaling_svg({alone});
  EXPECT_EQ(svg.find("<polyline"), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(BenchTrace, has_each_step_with_its_parts_one_after_the_other) {
  const auto trace = nlohmann::json::parse(chrome_trace(
      "{\"kind\":\"step\",\"step\":1,\"loss\":2.5,\"seconds\":1.0,\"load\":0.25,\"forward\":0.125,\"backward\":0.5,"
      "\"wait\":0.0625,\"commit\":0.03125}\n"
      "no json\n{\"kind\":\"other\",\"seconds\":9}\n[1]\n"
      "{\"kind\":\"step\",\"step\":2,\"loss\":null,\"seconds\":2.0,\"load\":\"x\",\"wait\":0.5}",
      "mlp"));
  const auto& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 1U + 2 * 6);
  EXPECT_EQ(events[0]["args"]["name"], "mlp");
  struct Case {
    size_t at;
    const char* name;
    double from, duration;  // microseconds
  };
  for (const Case& one :
       {Case{1, "step 1", 0, 1e6}, Case{2, "load", 0, 250000}, Case{3, "forward", 250000, 125000},
        Case{4, "backward", 375000, 500000}, Case{5, "wait", 875000, 62500}, Case{6, "commit", 937500, 31250},
        Case{7, "step 2", 1e6, 2e6}, Case{8, "load", 1e6, 0}, Case{11, "wait", 1e6, 500000}}) {
    EXPECT_EQ(events[one.at]["name"], one.name);
    EXPECT_EQ(events[one.at]["ph"], "X");
    EXPECT_EQ(events[one.at]["ts"], one.from) << one.name;
    EXPECT_EQ(events[one.at]["dur"], one.duration) << one.name;
  }
  EXPECT_EQ(events[1]["args"]["loss"], 2.5);
  EXPECT_EQ(nlohmann::json::parse(chrome_trace("", "x"))["traceEvents"].size(), 1U);
}

}  // namespace
}  // namespace lockstep::cli::bench_views_test
