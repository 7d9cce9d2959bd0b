// How a run of `lockstep bench train` is shown: a redrawn line on a terminal, and the lines of tf_cnn_benchmarks that
// rank 0 prints.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "operator/cli/display.h"

namespace lockstep::cli {

// The text of a tagged line of rank 0 ("[0] 10\timages/sec: ...") that belongs to the contract of tf_cnn_benchmarks.
// Such are the lines of speed, the total and its dashes. Pure.
std::optional<std::string> contract_line(std::string_view tagged);

// A display that drops all other lines of workers, and everything if `out` is null. `out` and `clock` outlive it.
std::unique_ptr<Display> make_bench_display(std::FILE* out, Clock& clock);

}  // namespace lockstep::cli
