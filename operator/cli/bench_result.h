// What `lockstep bench train` measured: from the result line of a trainer to tables, and whether a stored result is the
// one that is asked for. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"
#include "operator/cli/bench_matrix.h"

namespace lockstep::cli {

// What one run of a cell measured. Speeds are in samples/s over all workers; shares are of rank 0's step time.
struct RunResult {
  std::int64_t timed_steps = 0;
  double speed = 0;
  double error = 0;                          // standard error over steps
  double jitter = 0;                         // 1.4826 * median |speed of a step - median|
  double compute_speed = 0;                  // without the time that steps wait for samples
  double input_stall_percent = 0;            // waiting for samples
  double exposed_communication_percent = 0;  // waiting for other workers after the backward pass
  double bus_bandwidth = 0;                  // bytes/s of the all-reduces, as nccl-tests counts; 0: one worker
  double percent_of_peak = 0;                // FLOP/s over those of matrix products; 0: not known
  std::int64_t memory_bytes = 0;             // of one worker: state, gradients and activations
  std::string precision;                     // "float32"
  std::string transport;                     // between workers; "none" if there is one
};

// From the log of rank 0. kInvalid: it has no result line of a benchmark.
Result<RunResult> parse_run(std::string_view log);

struct CellResult {
  nlohmann::json settings;  // settings_of() the cell
  std::vector<RunResult> runs;
};

nlohmann::json to_json(const CellResult& result);
// kInvalid: the text is not what to_json() wrote.
Result<CellResult> parse_cell(const std::string& text);

// Whether a stored result is of these settings. kInvalid: it is of others; the sentence names the first that differs.
Status same_settings(const nlohmann::json& stored, const nlohmann::json& asked);

// A line of the table.
struct BenchRow {
  std::string model, data;
  int workers = 1, threads = 1, runs = 0;
  std::int64_t batch_per_worker = 0;
  std::string precision, transport;
  double speed = 0;   // mean of the runs
  double error = 0;   // standard error over the runs; of one run: over its steps
  double jitter = 0;  // the mean of the runs, as all that follow
  double compute_speed = 0, input_stall_percent = 0, exposed_communication_percent = 0;
  double bus_bandwidth = 0, percent_of_peak = 0;
  std::optional<double> single;      // T_1: speed of one worker with the same model and data
  std::optional<double> efficiency;  // speed / (workers * T_1)
};

// In the order of `cells`; results without runs are left out.
std::vector<BenchRow> rows_of(const std::vector<CellResult>& cells);

std::string bench_table(const std::vector<BenchRow>& rows);
// With a heading line; numbers with six significant digits.
std::string bench_csv(const std::vector<BenchRow>& rows);
nlohmann::json bench_json(const std::vector<BenchRow>& rows);

}  // namespace lockstep::cli
