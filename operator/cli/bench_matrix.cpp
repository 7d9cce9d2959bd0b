#include "operator/cli/bench_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <filesystem>
#include <set>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kSynthetic = "synthetic";
constexpr size_t kLongestWord = 32;  // of a name

// The characters of `text` that names of jobs and files may have.
std::string plain(const std::string& text) {
  std::string result;
  for (const char c : text.substr(0, kLongestWord)) {
    const bool digit = c >= '0' && c <= '9', small = c >= 'a' && c <= 'z', large = c >= 'A' && c <= 'Z';
    result += digit || small ? c : large ? static_cast<char>(c - 'A' + 'a') : '-';
  }
  return result;
}

// Tells folders of the same last name apart.
std::uint32_t checksum(const std::string& text) {
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  return crc.checksum();
}

std::string absolute(const std::string& data) {
  if (data == kSynthetic) return data;
  std::error_code error;
  std::string path = fs::absolute(data, error).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::int64_t micro_batch(const BenchOptions& options) {
  return options.micro_batch_size > 0 ? options.micro_batch_size : options.batch_size;
}

}  // namespace

Status check_bench(const BenchOptions& options) {
  if (options.batch_size % micro_batch(options) != 0) {
    return fail(ErrorCode::kInvalid, fmt::format("--batch-size {} is not a multiple of --micro-batch-size {}",
                                                 options.batch_size, options.micro_batch_size));
  }
  for (const std::string& data : options.data) {
    if (data == kSynthetic) continue;
    std::error_code error;
    if (fs::exists(data, error)) continue;
    return fail(ErrorCode::kNotFound, fmt::format("--data {}: {}; give a path that exists, or synthetic", data,
                                                  error ? error.message() : std::string("no such file or folder")));
  }
  return {};
}

std::vector<Cell> cells_of(const BenchOptions& options) {
  std::set<int> workers(options.workers.begin(), options.workers.end());
  workers.insert(1);
  std::vector<Cell> cells;
  for (const std::string& model : options.models) {
    for (const std::string& data : options.data) {
      for (const int count : workers) {
        const Cell cell{model, absolute(data), count};
        if (std::find(cells.begin(), cells.end(), cell) == cells.end()) cells.push_back(cell);
      }
    }
  }
  return cells;
}

std::string name_of(const Cell& cell) {
  const std::string data = cell.data == kSynthetic
                               ? cell.data
                               : fmt::format("{}-{:08x}", plain(fs::path(cell.data).filename()), checksum(cell.data));
  return fmt::format("{}-{}-w{}", plain(cell.model), data, cell.workers);
}

std::string describe(const Cell& cell) {
  return fmt::format("{} on {} with {} worker{}", cell.model,
                     cell.data == kSynthetic ? std::string("synthetic data") : cell.data, cell.workers,
                     cell.workers == 1 ? "" : "s");
}

Json settings_of(const Cell& cell, const BenchOptions& options, const std::string& version) {
  return {{"version", version},
          {"model", cell.model},
          {"data", cell.data},
          {"workers", cell.workers},
          {"batchPerWorker", options.batch_size},
          {"microBatch", micro_batch(options)},
          {"threads", options.threads},
          {"transport", options.transport},
          {"warmupSteps", options.warmup_steps},
          {"steps", options.steps},
          {"runs", options.runs},
          {"trainerArgs", options.trainer_args}};
}

Json job_of(const Cell& cell, const BenchOptions& options, const Steps& steps) {
  const std::int64_t all = steps.warmup + steps.timed;
  Json command = {"lockstep-trainer",
                  "--model=" + cell.model,
                  "--data=" + cell.data,
                  fmt::format("--batch-size={}", options.batch_size * cell.workers),
                  fmt::format("--micro-batch-size={}", micro_batch(options)),
                  fmt::format("--threads={}", options.threads),
                  "--transport=" + options.transport,
                  fmt::format("--steps={}", all),
                  fmt::format("--benchmark-warmup={}", steps.warmup),
                  fmt::format("--log-every={}", all),
                  "--eval-samples=1"};
  for (const std::string& word : options.trainer_args) command.push_back(word);
  return {{"apiVersion", "lockstep.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", fmt::format("bench-{}-w{}", plain(cell.model), cell.workers)}}},
          {"spec",
           {{"image", "lockstep"},
            {"command", std::move(command)},
            {"nodes", cell.workers},
            {"restart", {{"maxRestarts", 0}}}}}};
}

}  // namespace lockstep::cli
