// `lockstep bench train`: measures the cells of a matrix one after the other, each run as a job by the way of
// `lockstep run`.
#pragma once

#include "operator/cli/bench_matrix.h"

namespace lockstep::cli {

// Measures what options.output does not have yet, and writes tables into it. Call it before any thread exists. Returns
// the exit status: 0, 1 for a failure, 2 for contradictory options (one sentence on standard error), 128 + the signal
// that stopped it.
int bench_train(const BenchOptions& options);

}  // namespace lockstep::cli
