#include "operator/cli/bench_estimate.h"

#include <gtest/gtest.h>

namespace lockstep::cli::bench_estimate_test {
namespace {

TEST(BenchEstimate, workers_that_share_cpus_take_turns) {
  const BenchProbe probe{.model = "m", .data = "d", .start_seconds = 2, .step_seconds = 0.5, .memory_bytes = 1000};
  struct Case {
    int workers, threads, cpus;
    double seconds;
  };
  for (const Case& one : {Case{1, 1, 2, 3 * (2 + 10.0)}, Case{2, 1, 2, 3 * (2 + 10.0)}, Case{4, 1, 2, 3 * (4 + 20.0)},
                          Case{2, 2, 2, 3 * (2 + 20.0)}, Case{1, 4, 2, 3 * (2 + 10.0)}}) {
    const BenchOptions options{.threads = one.threads, .warmup_steps = 5, .steps = 15, .runs = 3};
    const BenchEstimate found = estimate({"m", "d", one.workers}, options, probe, one.cpus);
    EXPECT_NEAR(found.seconds, one.seconds, 1e-9) << one.workers << " " << one.threads;
    EXPECT_EQ(found.memory_bytes, 1000 * one.workers);
  }
}

TEST(BenchEstimate, what_is_left_is_corrected_by_what_was_measured) {
  EXPECT_NEAR(remaining_seconds({10, 20, 30}, 0, 0), 60, 1e-9);
  EXPECT_NEAR(remaining_seconds({10, 20, 30}, 1, 10), 50, 1e-9);
  EXPECT_NEAR(remaining_seconds({10, 20, 30}, 2, 60), 60, 1e-9);  // twice as slow as estimated
  EXPECT_NEAR(remaining_seconds({10, 20, 30}, 3, 90), 0, 1e-9);
  EXPECT_NEAR(remaining_seconds({}, 0, 0), 0, 1e-9);
}

TEST(BenchEstimate, a_dry_run_lists_cells_memory_and_time) {
  const std::vector<Cell> cells = {{"mlp", "synthetic", 1}, {"mlp", "synthetic", 2}};
  EXPECT_EQ(dry_run_table(cells, {{.seconds = 65, .memory_bytes = 3 << 19}, {.seconds = 70, .memory_bytes = 3 << 20}},
                          {false, true}),
            "MODEL  DATA       WORKERS  MEMORY   TIME\n"
            "mlp    synthetic  1        1.5 MiB  1:05\n"
            "mlp    synthetic  2        -        measured\n"
            "\n2 cells, about 1:05 in all\n");
}

}  // namespace
}  // namespace lockstep::cli::bench_estimate_test
