#include "operator/cli/storage_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

constexpr int kKeptMib = 8192;  // more than `memory` holds, in both forms

bool keeps(const StorageCell& cell) {
  return cell.store.ends_with("-kept");
}

StoreFigures figures_of(const StorageCell& cell, const StorageOptions& options) {
  if (cell.store.starts_with("nfs")) return options.nfs;
  if (cell.store.starts_with("object")) return options.object;
  return {};
}

}  // namespace

std::vector<StorageCell> storage_cells(const StorageOptions& options) {
  std::vector<std::string> stores = {"memory"};
  for (const std::string& store : options.stores) {
    if (std::find(stores.begin(), stores.end(), store) == stores.end()) stores.push_back(store);
  }
  const std::set<int> loaders(options.loaders.begin(), options.loaders.end());
  std::vector<StorageCell> cells = {{.store = "synthetic", .form = {}, .loaders = 1}};
  for (const std::string& store : stores) {
    for (const char* form : {"records", "files"}) {
      for (const int count : loaders) cells.push_back({.store = store, .form = form, .loaders = count});
    }
  }
  return cells;
}

std::string name_of(const StorageCell& cell) {
  if (cell.form.empty()) return cell.store;
  return fmt::format("{}-{}-l{}", cell.store, cell.form, cell.loaders);
}

std::string describe(const StorageCell& cell) {
  if (cell.form.empty()) return cell.store + " images";
  return fmt::format("{} on {}, {} loader{}", cell.form, cell.store, cell.loaders, cell.loaders == 1 ? "" : "s");
}

nlohmann::json settings_of(const StorageCell& cell, const StorageOptions& options, const std::string& version) {
  const StoreFigures figures = figures_of(cell, options);
  return {{"version", version},
          {"store", cell.store},
          {"form", cell.form},
          {"loaders", cell.loaders},
          {"images", options.images},
          {"size", options.side},
          {"seconds", options.seconds},
          {"runs", options.runs},
          {"latencyMs", figures.latency_ms},
          {"bandwidthMib", figures.mib_per_second}};
}

std::string data_of(const std::string& form, const StorageOptions& options) {
  return fmt::format("data/{}-{}-{}", form, options.images, options.side);
}

std::vector<std::string> words_of(const StorageCell& cell, const StorageOptions& options, const std::string& data,
                                  const std::string& kept) {
  std::vector<std::string> words = {"read", cell.form.empty() ? cell.store : data,
                                    fmt::format("--size={}", options.side),
                                    fmt::format("--seconds={}", options.seconds)};
  if (cell.loaders > 1) words.push_back(fmt::format("--threads={}", cell.loaders));
  if (cell.store == "memory") words.emplace_back("--in-memory");
  const StoreFigures figures = figures_of(cell, options);
  if (figures.latency_ms > 0) words.push_back(fmt::format("--latency-ms={}", figures.latency_ms));
  if (figures.mib_per_second > 0) words.push_back(fmt::format("--bandwidth-mib={}", figures.mib_per_second));
  if (keeps(cell)) {
    words.push_back("--cache-folder=" + kept);
    words.push_back(fmt::format("--cache-folder-mib={}", kKeptMib));
    words.emplace_back("--second-epoch");
  }
  return words;
}

std::string storage_plan(const std::vector<StorageCell>& cells, const std::vector<bool>& measured,
                         const StorageOptions& options) {
  const double each = options.runs * options.seconds;
  std::vector<std::vector<std::string>> lines = {{"STORE", "FORM", "LOADERS", "TIME"}};
  double seconds = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    lines.push_back({cells[i].store, cells[i].form.empty() ? "-" : cells[i].form, fmt::format("{}", cells[i].loaders),
                     measured[i] ? "measured" : clock_time(each)});
    if (!measured[i]) seconds += each;
  }
  return table(lines) + fmt::format("\n{} cells, {} in all, and the time to make {} images of {} x {} pixels\n",
                                    cells.size(), clock_time(seconds), options.images, options.side, options.side);
}

}  // namespace lockstep::cli
