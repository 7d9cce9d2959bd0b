// The matrix of `lockstep bench storage`: its cells, and how lockstep-data measures each. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::cli {

// What a simulated store costs (lockstep data read).
struct StoreFigures {
  double latency_ms = 0;      // of each opening and each read
  double mib_per_second = 0;  // of all reads together
};

struct StorageOptions {
  std::vector<std::string> stores = {"local", "nfs", "object", "object-kept"};
  std::vector<int> loaders = {1, 2, 4, 8};
  std::int64_t images = 2000;
  std::int64_t side = 224;  // rows and columns, pixels
  double seconds = 5;       // of a run
  int runs = 3;             // of each cell
  StoreFigures nfs{1, 1000}, object{20, 500};
  std::string output = "lockstep-storage";
  bool dry_run = false;
};

// One configuration that is measured.
struct StorageCell {
  std::string store;  // "synthetic", "memory", or one of the options; "NAME-kept": NAME, its images kept near
  std::string form;   // "records" or "files"; empty: synthetic images have none
  int loaders = 1;    // threads that read and decode

  bool operator==(const StorageCell&) const = default;
};

// Synthetic images, then memory and the stores of the options, each with both forms and all numbers of loaders. Memory
// is always there: the others are measured against it.
std::vector<StorageCell> storage_cells(const StorageOptions& options);

// A name for files: "nfs-records-l4".
std::string name_of(const StorageCell& cell);
// For people: "records on nfs, 4 loaders".
std::string describe(const StorageCell& cell);

// Everything that decides what the cell's measurement is, as its result stores it.
nlohmann::json settings_of(const StorageCell& cell, const StorageOptions& options, const std::string& version);

// The data set of a form below the folder of the results: "data/files-2000-224". Other options have another one.
std::string data_of(const std::string& form, const StorageOptions& options);

// The words of lockstep-data that measure one run of the cell, of a data set at `data`. Stores that keep images have
// them in the folder `kept`.
std::vector<std::string> words_of(const StorageCell& cell, const StorageOptions& options, const std::string& data,
                                  const std::string& kept);

// What --dry-run prints: a line for each cell, and how long all of them take. `measured` ones take no time.
std::string storage_plan(const std::vector<StorageCell>& cells, const std::vector<bool>& measured,
                         const StorageOptions& options);

}  // namespace lockstep::cli
