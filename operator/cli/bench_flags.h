// The flags of `lockstep bench`.
#pragma once

#include "operator/cli/bench_matrix.h"
#include "operator/cli/storage_cells.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

// Adds `bench` with its commands `train` and `storage`. The options outlive the parsing.
void add_bench(CLI::App& app, BenchOptions& options, StorageOptions& storage);

}  // namespace lockstep::cli
