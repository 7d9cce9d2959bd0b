// What `lockstep bench storage` measured: from the result lines of lockstep-data to tables and a picture. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"
#include "operator/cli/storage_cells.h"

namespace lockstep::cli {

// Images/s of a run, from what lockstep data read printed. kInvalid: there is no result line in it.
Result<double> parse_read(std::string_view output);

struct StorageResult {
  nlohmann::json settings;     // settings_of() the cell
  std::vector<double> speeds;  // of its runs, images/s
};

nlohmann::json to_json(const StorageResult& result);
// kInvalid: the text is not what to_json() wrote.
Result<StorageResult> parse_storage_result(const std::string& text);

// A line of the table.
struct StorageRow {
  StorageCell cell;
  int runs = 0;
  double speed = 0;             // mean of the runs, images/s
  double error = 0;             // standard deviation of the runs / sqrt(runs)
  std::optional<double> bound;  // of memory with the same form and loaders
  std::optional<double> ratio;  // speed / bound
};

// In the order of `results`; those without runs are left out.
std::vector<StorageRow> storage_rows(const std::vector<StorageResult>& results);

std::string storage_table(const std::vector<StorageRow>& rows);
std::string storage_csv(const std::vector<StorageRow>& rows);  // with a heading line
nlohmann::json storage_json(const std::vector<StorageRow>& rows);
// A whole SVG document: images/s over the loaders, a line for each store and form.
std::string storage_svg(const std::vector<StorageRow>& rows);

}  // namespace lockstep::cli
