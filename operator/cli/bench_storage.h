// `lockstep bench storage`: how fast images are read and decoded from stores of different speed.
#pragma once

#include "operator/cli/storage_cells.h"

namespace lockstep::cli {

// Makes the data sets that are not there, measures the cells that the folder does not have, and writes the results.
// Returns the exit status: 0, or 1 after a failure, which it has told.
int bench_storage(const StorageOptions& options);

}  // namespace lockstep::cli
