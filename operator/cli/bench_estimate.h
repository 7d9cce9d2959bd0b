// What a matrix will take: time and memory, from a few steps of each model on one worker. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/cli/bench_matrix.h"

namespace lockstep::cli {

// What a short run of one worker showed.
struct BenchProbe {
  std::string model, data;        // of the cells that it speaks for
  double start_seconds = 0;       // of the run beside its steps
  double step_seconds = 0;        // of one step
  std::int64_t memory_bytes = 0;  // of one worker: state, gradients and activations
};

struct BenchEstimate {
  double seconds = 0;             // of all runs of the cell
  std::int64_t memory_bytes = 0;  // of all workers together
};

// `cpus`: those that this process may use. Workers that have to share them take turns.
BenchEstimate estimate(const Cell& cell, const BenchOptions& options, const BenchProbe& probe, int cpus);

// Seconds that the rest will take: the estimates from `done` on, corrected by how the first `done` turned out.
double remaining_seconds(const std::vector<double>& estimates, size_t done, double spent_seconds);

// What --dry-run prints: a line for each cell, and the sum. Cells that are `measured` take no time.
std::string dry_run_table(const std::vector<Cell>& cells, const std::vector<BenchEstimate>& estimates,
                          const std::vector<bool>& measured);

}  // namespace lockstep::cli
