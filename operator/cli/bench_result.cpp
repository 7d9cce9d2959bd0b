#include "operator/cli/bench_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::json;

double mean_of(const std::vector<RunResult>& runs, double RunResult::*field) {
  double sum = 0;
  for (const RunResult& run : runs) sum += run.*field;
  return runs.empty() ? 0 : sum / static_cast<double>(runs.size());
}

double error_of(const std::vector<RunResult>& runs) {
  if (runs.size() == 1) return runs.front().error;
  const double mean = mean_of(runs, &RunResult::speed), n = static_cast<double>(runs.size());
  double variance = 0;
  for (const RunResult& run : runs) variance += (run.speed - mean) * (run.speed - mean) / n;
  return std::sqrt(variance) / std::sqrt(n);
}

// The names of the trainer's result line.
Result<RunResult> from_result(const Json& result) {
  try {
    return RunResult{.timed_steps = result.at("timed_steps"),
                     .speed = result.at("images_per_second"),
                     .error = result.at("images_per_second_error"),
                     .jitter = result.at("images_per_second_jitter"),
                     .compute_speed = result.at("compute_images_per_second"),
                     .input_stall_percent = result.at("input_stall_percent"),
                     .exposed_communication_percent = result.at("exposed_communication_percent"),
                     .bus_bandwidth = result.value("bus_bytes_per_second", 0.0),
                     .percent_of_peak = result.value("percent_of_peak", 0.0),
                     .memory_bytes = result.at("memory_bytes"),
                     .precision = result.at("precision"),
                     .transport = result.at("transport")};
  } catch (const Json::exception& error) {
    return fail(ErrorCode::kInvalid, fmt::format("the result of the benchmark cannot be read: {}", error.what()));
  }
}

Json to_result(const RunResult& run) {
  return {{"timed_steps", run.timed_steps},
          {"images_per_second", run.speed},
          {"images_per_second_error", run.error},
          {"images_per_second_jitter", run.jitter},
          {"compute_images_per_second", run.compute_speed},
          {"input_stall_percent", run.input_stall_percent},
          {"exposed_communication_percent", run.exposed_communication_percent},
          {"bus_bytes_per_second", run.bus_bandwidth},
          {"percent_of_peak", run.percent_of_peak},
          {"memory_bytes", run.memory_bytes},
          {"precision", run.precision},
          {"transport", run.transport}};
}

std::string percent(double value) {
  return fmt::format("{:.1f} %", value);
}

// A field of a line of CSV (RFC 4180).
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

}  // namespace

Result<RunResult> parse_run(std::string_view log) {
  constexpr std::string_view kResult = "result {";
  size_t at = log.rfind(kResult);
  while (at != std::string_view::npos && at > 0 && log[at - 1] != '\n') at = log.rfind(kResult, at - 1);
  if (at == std::string_view::npos) return fail(ErrorCode::kInvalid, "its rank 0 printed no result");
  const std::string_view line = log.substr(at + kResult.size() - 1, log.find('\n', at) - at - kResult.size() + 1);
  return from_result(Json::parse(line, nullptr, false));
}

Json to_json(const CellResult& result) {
  Json runs = Json::array();
  for (const RunResult& run : result.runs) runs.push_back(to_result(run));
  return {{"settings", result.settings}, {"runs", std::move(runs)}};
}

Result<CellResult> parse_cell(const std::string& text) {
  const Json stored = Json::parse(text, nullptr, false);
  const bool whole = stored.is_object() && stored.contains("settings") && stored["settings"].is_object() &&
                     stored.contains("runs") && stored["runs"].is_array();
  if (!whole) return fail(ErrorCode::kInvalid, "it is not the result of a cell");
  CellResult result{.settings = stored["settings"], .runs = {}};
  for (const Json& run : stored["runs"]) {
    LOCKSTEP_TRY(RunResult parsed, from_result(run));
    result.runs.push_back(std::move(parsed));
  }
  return result;
}

Status same_settings(const Json& stored, const Json& asked) {
  for (const auto& [name, value] : asked.items()) {
    const Json had = stored.value(name, Json());
    if (had == value) continue;
    return fail(ErrorCode::kInvalid, fmt::format("{} is {} there, and {} here", name, had.dump(), value.dump()));
  }
  return {};
}

std::vector<BenchRow> rows_of(const std::vector<CellResult>& cells) {
  std::vector<BenchRow> rows;
  for (const CellResult& cell : cells) {
    if (cell.runs.empty()) continue;
    const std::vector<RunResult>& runs = cell.runs;
    rows.push_back({.model = cell.settings.value("model", ""),
                    .data = cell.settings.value("data", ""),
                    .workers = cell.settings.value("workers", 1),
                    .threads = cell.settings.value("threads", 1),
                    .runs = static_cast<int>(runs.size()),
                    .batch_per_worker = cell.settings.value("batchPerWorker", std::int64_t{0}),
                    .precision = runs.front().precision,
                    .transport = runs.front().transport,
                    .speed = mean_of(runs, &RunResult::speed),
                    .error = error_of(runs),
                    .jitter = mean_of(runs, &RunResult::jitter),
                    .compute_speed = mean_of(runs, &RunResult::compute_speed),
                    .input_stall_percent = mean_of(runs, &RunResult::input_stall_percent),
                    .exposed_communication_percent = mean_of(runs, &RunResult::exposed_communication_percent),
                    .bus_bandwidth = mean_of(runs, &RunResult::bus_bandwidth),
                    .percent_of_peak = mean_of(runs, &RunResult::percent_of_peak),
                    .single = {},
                    .efficiency = {}});
  }
  for (BenchRow& row : rows) {
    const auto one = std::find_if(rows.begin(), rows.end(), [&](const BenchRow& other) {
      return other.workers == 1 && other.model == row.model && other.data == row.data;
    });
    if (one == rows.end() || !(one->speed > 0)) continue;
    row.single = one->speed;
    row.efficiency = row.speed / (row.workers * one->speed);
  }
  return rows;
}

std::string bench_table(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> lines = {{"MODEL", "DATA", "WORKERS", "BATCH/WORKER", "PRECISION", "TRANSPORT",
                                                  "IMAGES/SEC", "+/-", "JITTER", "COMPUTE", "INPUT STALL",
                                                  "EXPOSED COMM.", "BUS GB/S", "OF PEAK", "T_1", "EFFICIENCY"}};
  for (const BenchRow& row : rows) {
    lines.push_back({row.model, row.data, fmt::format("{}", row.workers), fmt::format("{}", row.batch_per_worker),
                     row.precision, row.transport, fmt::format("{:.1f}", row.speed), fmt::format("{:.1f}", row.error),
                     fmt::format("{:.1f}", row.jitter), fmt::format("{:.1f}", row.compute_speed),
                     percent(row.input_stall_percent), percent(row.exposed_communication_percent),
                     row.bus_bandwidth > 0 ? fmt::format("{:.2f}", 1e-9 * row.bus_bandwidth) : "-",
                     row.percent_of_peak > 0 ? percent(row.percent_of_peak) : "-",
                     row.single ? fmt::format("{:.1f}", *row.single) : "-",
                     row.efficiency ? percent(100 * *row.efficiency) : "-"});
  }
  return table(lines);
}

std::string bench_csv(const std::vector<BenchRow>& rows) {
  std::string text =
      "model,data,workers,threads,batch_per_worker,precision,transport,runs,images_per_second,standard_error,jitter,"
      "compute_images_per_second,input_stall_percent,exposed_communication_percent,bus_bytes_per_second,"
      "percent_of_peak,t_1,efficiency\n";
  for (const BenchRow& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{}\n",
                        quoted(row.model), quoted(row.data), row.workers, row.threads, row.batch_per_worker,
                        quoted(row.precision), quoted(row.transport), row.runs, row.speed, row.error, row.jitter,
                        row.compute_speed, row.input_stall_percent, row.exposed_communication_percent,
                        row.bus_bandwidth, row.percent_of_peak, row.single ? fmt::format("{:.6g}", *row.single) : "",
                        row.efficiency ? fmt::format("{:.6g}", *row.efficiency) : "");
  }
  return text;
}

Json bench_json(const std::vector<BenchRow>& rows) {
  Json all = Json::array();
  for (const BenchRow& row : rows) {
    all.push_back({{"model", row.model},
                   {"data", row.data},
                   {"workers", row.workers},
                   {"threads", row.threads},
                   {"batchPerWorker", row.batch_per_worker},
                   {"precision", row.precision},
                   {"transport", row.transport},
                   {"runs", row.runs},
                   {"imagesPerSecond", row.speed},
                   {"standardError", row.error},
                   {"jitter", row.jitter},
                   {"computeImagesPerSecond", row.compute_speed},
                   {"inputStallPercent", row.input_stall_percent},
                   {"exposedCommunicationPercent", row.exposed_communication_percent},
                   {"busBytesPerSecond", row.bus_bandwidth},
                   {"percentOfPeak", row.percent_of_peak},
                   {"t1", row.single ? Json(*row.single) : Json()},
                   {"efficiency", row.efficiency ? Json(*row.efficiency) : Json()}});
  }
  return all;
}

}  // namespace lockstep::cli
