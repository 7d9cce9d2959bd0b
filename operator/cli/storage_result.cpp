#include "operator/cli/storage_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "operator/cli/line_plot.h"
#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::json;

Json optional(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

Result<double> parse_read(std::string_view output) {
  constexpr std::string_view kResult = "\nresult {";
  const size_t at = output.rfind(kResult);
  if (at == std::string_view::npos) return fail(ErrorCode::kInvalid, "lockstep-data printed no result");
  const size_t from = at + kResult.size() - 1;
  const Json result = Json::parse(output.substr(from, output.find('\n', from) - from), nullptr, false);
  if (!result.is_object() || !result.contains("images_per_second") || !result["images_per_second"].is_number()) {
    return fail(ErrorCode::kInvalid, "the result of lockstep-data cannot be read");
  }
  return result["images_per_second"].get<double>();
}

Json to_json(const StorageResult& result) {
  return {{"settings", result.settings}, {"imagesPerSecond", result.speeds}};
}

Result<StorageResult> parse_storage_result(const std::string& text) {
  const Json stored = Json::parse(text, nullptr, false);
  try {
    StorageResult result{.settings = stored.at("settings"), .speeds = stored.at("imagesPerSecond")};
    if (result.settings.is_object()) return result;
  } catch (const Json::exception&) {
    // The sentence is the same.
  }
  return fail(ErrorCode::kInvalid, "it is not the result of a cell");
}

std::vector<StorageRow> storage_rows(const std::vector<StorageResult>& results) {
  std::vector<StorageRow> rows;
  for (const StorageResult& result : results) {
    if (result.speeds.empty()) continue;
    const auto runs = static_cast<double>(result.speeds.size());
    StorageRow row{.cell = {.store = result.settings.value("store", ""),
                            .form = result.settings.value("form", ""),
                            .loaders = result.settings.value("loaders", 1)},
                   .runs = static_cast<int>(result.speeds.size()),
                   .speed = std::accumulate(result.speeds.begin(), result.speeds.end(), 0.0) / runs,
                   .bound = {},
                   .ratio = {}};
    double squares = 0;
    for (const double speed : result.speeds) squares += (speed - row.speed) * (speed - row.speed);
    row.error = std::sqrt(squares / runs) / std::sqrt(runs);
    rows.push_back(std::move(row));
  }
  for (StorageRow& row : rows) {
    if (row.cell.form.empty()) continue;
    const StorageCell memory{.store = "memory", .form = row.cell.form, .loaders = row.cell.loaders};
    const auto bound =
        std::find_if(rows.begin(), rows.end(), [&](const StorageRow& one) { return one.cell == memory; });
    if (bound == rows.end() || !(bound->speed > 0)) continue;
    row.bound = bound->speed;
    row.ratio = row.speed / bound->speed;
  }
  return rows;
}

std::string storage_table(const std::vector<StorageRow>& rows) {
  std::vector<std::vector<std::string>> lines = {{"STORE", "FORM", "LOADERS", "IMAGES/SEC", "+/-", "BOUND", "RATIO"}};
  for (const StorageRow& row : rows) {
    lines.push_back({row.cell.store, row.cell.form.empty() ? "-" : row.cell.form, fmt::format("{}", row.cell.loaders),
                     fmt::format("{:.1f}", row.speed), fmt::format("{:.1f}", row.error),
                     row.bound ? fmt::format("{:.1f}", *row.bound) : "-",
                     row.ratio ? fmt::format("{:.2f}", *row.ratio) : "-"});
  }
  return table(lines);
}

std::string storage_csv(const std::vector<StorageRow>& rows) {
  std::string text = "store,form,loaders,runs,images_per_second,standard_error,bound,ratio\n";
  for (const StorageRow& row : rows) {
    text += fmt::format("{},{},{},{},{:.6g},{:.6g},{},{}\n", row.cell.store, row.cell.form, row.cell.loaders, row.runs,
                        row.speed, row.error, row.bound ? fmt::format("{:.6g}", *row.bound) : "",
                        row.ratio ? fmt::format("{:.6g}", *row.ratio) : "");
  }
  return text;
}

Json storage_json(const std::vector<StorageRow>& rows) {
  Json all = Json::array();
  for (const StorageRow& row : rows) {
    all.push_back({{"store", row.cell.store},
                   {"form", row.cell.form},
                   {"loaders", row.cell.loaders},
                   {"runs", row.runs},
                   {"imagesPerSecond", row.speed},
                   {"standardError", row.error},
                   {"bound", optional(row.bound)},
                   {"ratio", optional(row.ratio)}});
  }
  return all;
}

std::string storage_svg(const std::vector<StorageRow>& rows) {
  LinePlot plot{.title = "images/s", .x = "loaders", .unit = "", .scale = 1, .most_x = 2, .top = 1, .lines = {}};
  for (const StorageRow& row : rows) {
    if (row.cell.form.empty()) continue;
    const std::string name = fmt::format("{}, {}", row.cell.store, row.cell.form);
    if (plot.lines.empty() || plot.lines.back().name != name) plot.lines.push_back({.name = name, .points = {}});
    plot.lines.back().points.push_back({static_cast<double>(row.cell.loaders), row.speed, row.error});
  }
  return line_plot(std::move(plot));
}

}  // namespace lockstep::cli
