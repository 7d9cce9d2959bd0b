#include "trainer/report/benchmark.h"

#include <gtest/gtest.h>

namespace lockstep::trainer::report {
namespace {

TEST(Benchmark, prints_a_line_every_ten_steps_after_the_warm_up) {
  Benchmark benchmark(3, 32);
  std::vector<std::string> lines;
  for (int step = 1; step <= 25; ++step) {
    const double seconds = step <= 3 ? 9.0 : 0.25;
    if (auto line = benchmark.add(seconds, {}, 2.5)) lines.push_back(*line);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"10\timages/sec: 128.0 +/- 0.0 (jitter = 0.0)\t2.500",
                                             "20\timages/sec: 128.0 +/- 0.0 (jitter = 0.0)\t2.500"}));
  EXPECT_EQ(benchmark.result().speed.steps, 22U);
  EXPECT_NEAR(benchmark.result().speed.mean, 128, 1e-9);
}

TEST(Benchmark, a_line_has_the_speed_of_all_steps_and_the_jitter_of_the_last_thousand) {
  Benchmark benchmark(0, 32);
  std::optional<std::string> line;
  for (int step = 0; step < 3000; ++step) benchmark.add(step % 2 == 0 ? 0.5 : 1.0, {}, 0);
  for (int step = 0; step < 1000; ++step) line = benchmark.add(0.25, {}, 2.5);
  const SpeedStatistics all = benchmark.result().speed;
  EXPECT_GT(all.jitter, 40);
  EXPECT_EQ(line, "4000\timages/sec: 51.2 +/- 0.6 (jitter = 0.0)\t2.500");
  EXPECT_NEAR(all.mean, 51.2, 1e-9);
  EXPECT_NEAR(all.standard_error, 0.6, 0.05);
}

TEST(Benchmark, tells_the_input_and_the_communication_apart_from_computing) {
  Benchmark benchmark(1, 100);
  benchmark.add(5.0, {.load = 5, .wait = 5}, 0);  // the warm-up
  benchmark.add(1.0, {.load = 0.25, .forward = 0.2, .backward = 0.3, .wait = 0.1, .commit = 0.1}, 0);
  benchmark.add(3.0, {.load = 0.75, .forward = 0.6, .backward = 0.9, .wait = 0.3, .commit = 0.3}, 0);
  const BenchmarkResult result = benchmark.result();
  EXPECT_NEAR(result.speed.mean, 50, 1e-9);
  EXPECT_NEAR(result.compute_speed, 200 / 3.0, 1e-9);
  EXPECT_NEAR(result.input_stall_percent, 25, 1e-9);
  EXPECT_NEAR(result.exposed_communication_percent, 10, 1e-9);
}

TEST(Benchmark, bus_bandwidth_is_what_travelled_over_the_time_in_which_it_did) {
  Benchmark benchmark(1, 100);
  benchmark.add(1, {}, 0, {.seconds = 9, .bus_bytes = 1});  // the warm-up
  benchmark.add(1, {}, 0, {.seconds = 0.1, .bus_bytes = 3e8});
  benchmark.add(1, {}, 0, {.seconds = 0.4, .bus_bytes = 3e8});
  EXPECT_NEAR(benchmark.result().bus_bandwidth, 1.2e9, 1);
}

TEST(Benchmark, of_no_timed_steps_is_zero) {
  Benchmark benchmark(2, 32);
  benchmark.add(1, {.load = 1}, 0);
  EXPECT_EQ(benchmark.result().speed.mean, 0);
  EXPECT_EQ(benchmark.result().compute_speed, 0);
  EXPECT_EQ(benchmark.result().input_stall_percent, 0);
  EXPECT_EQ(benchmark.result().bus_bandwidth, 0);
}

}  // namespace
}  // namespace lockstep::trainer::report
