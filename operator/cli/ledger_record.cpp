#include "operator/cli/ledger_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostOddities = 20;

void odd(LedgerRecord& record, std::string sentence) {
  if (record.oddities.size() < kMostOddities) record.oddities.push_back(std::move(sentence));
}

void add_step(LedgerRecord& record, const std::string& file, const json& line) {
  const std::int64_t step = line.at("step"), generation = line.at("generation");
  const int rank = line.at("rank");
  LedgerGeneration::Committed committed{
      .world = line.at("world"), .digest = line.value("digest", ""), .ns = line.at("ns")};
  for (const json& batch : line.at("batches")) committed.batches.push_back(batch.at(0));
  auto& of_step = record.generations[generation].steps[step];
  if (of_step.empty()) ++record.commits;
  if (!of_step.emplace(rank, std::move(committed)).second) {
    odd(record,
        fmt::format("{}: step {} was committed twice by rank {} of generation {}", file, step, rank, generation));
  }
  record.newest_step = std::max(record.newest_step, step);
}

void add_enter(LedgerRecord& record, const std::string& file, const json& line) {
  const std::int64_t generation = line.at("generation");
  const int rank = line.at("rank");
  LedgerGeneration::Entered entered{line.at("from_step"), line.at("committed_in"), line.at("digest"), line.at("ns")};
  if (!record.generations[generation].entered.emplace(rank, std::move(entered)).second) {
    odd(record, fmt::format("{}: two processes were rank {} of generation {}", file, rank, generation));
  }
}

void add_process(LedgerRecord& record, const std::string& file, const json& line) {
  const std::int64_t steps = line.at("steps"), batch = line.at("batch_size"), micro = line.at("micro_batch_size");
  const std::int64_t batches = micro > 0 ? batch / micro : 0;
  if (record.total_steps != 0 && (record.total_steps != steps || record.micro_batches != batches)) {
    odd(record, fmt::format("{}: it is of another job", file));
    return;
  }
  record.total_steps = steps;
  record.micro_batches = batches;
}

}  // namespace

void add_ledger_line(LedgerRecord& record, const std::string& file, const std::string& text) {
  try {
    const json line = json::parse(text);
    const std::string kind = line.at("kind");
    if (kind == "process") add_process(record, file, line);
    if (kind == "enter") add_enter(record, file, line);
    if (kind == "step") add_step(record, file, line);
  } catch (const json::exception& error) {
    odd(record, fmt::format("{}: a line is not one of a ledger: {}", file, error.what()));
  }
}

Result<std::unique_ptr<LedgerReader>> LedgerReader::open(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return fail(ErrorCode::kUnavailable, fmt::format("cannot create the folder {}: {}", folder, error.message()));
  const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  std::unique_ptr<LedgerReader> reader(new LedgerReader(folder, watch));
  if (watch < 0 || inotify_add_watch(watch, folder.c_str(), IN_MODIFY | IN_CREATE) < 0) {
    return fail(ErrorCode::kExhausted, fmt::format("the folder {} cannot be watched: {}", folder, strerror(errno)));
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    reader->files_[entry.path().filename().string()].foreign = true;
  }
  return reader;
}

LedgerReader::~LedgerReader() {
  if (watch_ >= 0) close(watch_);
}

void LedgerReader::read() {
  std::set<std::string> changed;
  bool overflow = false;
  alignas(inotify_event) std::array<char, 16384> buffer;
  for (ssize_t got = 0; (got = ::read(watch_, buffer.data(), buffer.size())) > 0;) {
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      overflow = overflow || (event->mask & IN_Q_OVERFLOW) != 0;
      if (event->len > 0) changed.insert(event->name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  if (overflow) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) changed.insert(entry.path().filename().string());
  }
  for (const std::string& name : changed) read_file(name);
}

void LedgerReader::read_file(const std::string& name) {
  File& file = files_[name];
  if (file.foreign || !name.ends_with(".jsonl")) return;
  const int fd = ::open((folder_ + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  std::array<char, 65536> block;
  for (ssize_t got = 0; (got = pread(fd, block.data(), block.size(), file.read)) > 0; file.read += got) {
    file.rest.append(block.data(), static_cast<size_t>(got));
  }
  close(fd);
  size_t begin = 0;
  for (size_t end = 0; (end = file.rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
    add_ledger_line(record_, name, file.rest.substr(begin, end - begin));
  }
  file.rest.erase(0, begin);
}

}  // namespace lockstep::cli
