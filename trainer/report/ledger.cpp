#include "trainer/report/ledger.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

namespace lockstep::trainer::report {

namespace {

using Json = nlohmann::ordered_json;

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string hexadecimal(std::uint64_t digest) {
  return fmt::format("{:016x}", digest);
}

// The uid as a part of a file's name; torchrun's run id may be anything.
std::string file_name_of(const std::string& job_uid) {
  std::string name = job_uid.empty() ? "alone" : job_uid;
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain) c = '_';
  }
  return name.substr(0, 128);
}

std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Result<std::unique_ptr<Ledger>> Ledger::open(const std::string& folder, const std::string& job_uid,
                                             const LedgerProcess& process) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return fail(error == std::errc::permission_denied ? ErrorCode::kForbidden : ErrorCode::kUnavailable,
                fmt::format("the folder {} for the ledger cannot be created: {}", folder, error.message()));
  }
  const std::int64_t now = monotonic_ns();
  const std::string path = fmt::format("{}/{}-{}-{}.jsonl", folder, file_name_of(job_uid), ::getpid(), now);
  LOCKSTEP_TRY(auto file, LineFile::begin("the ledger", path,
                                          line_of({{"kind", "process"},
                                                   {"pid", ::getpid()},
                                                   {"ns", now},
                                                   {"job", job_uid},
                                                   {"model", process.model},
                                                   {"data", process.data},
                                                   {"backend", process.backend},
                                                   {"seed", process.seed},
                                                   {"deterministic", process.deterministic},
                                                   {"steps", process.steps},
                                                   {"batch_size", process.batch_size},
                                                   {"micro_batch_size", process.micro_batch_size},
                                                   {"context", process.context}})));
  return std::unique_ptr<Ledger>(new Ledger(std::move(file)));
}

Status Ledger::enter(const LedgerEnter& enter) {
  return file_->write(line_of({{"kind", "enter"},
                               {"generation", enter.generation},
                               {"rank", enter.rank},
                               {"world", enter.world},
                               {"ns", monotonic_ns()},
                               {"from_step", enter.step},
                               {"committed_in", enter.committed_in},
                               {"digest", hexadecimal(enter.digest)}}));
}

Status Ledger::step(const LedgerStep& step) {
  Json batches = Json::array();
  for (const auto& [index, crc32] : step.batches) batches.push_back({index, fmt::format("{:08x}", crc32)});
  Json line = {{"kind", "step"},      {"step", step.step},    {"generation", step.generation}, {"rank", step.rank},
               {"world", step.world}, {"ns", monotonic_ns()}, {"batches", std::move(batches)}};
  line["digest"] = hexadecimal(step.digest);
  return file_->write(line_of(line));
}

Status Ledger::skipped(const LedgerSkipped& skipped) {
  return file_->write(line_of({{"kind", "skipped"},
                               {"ns", monotonic_ns()},
                               {"file", skipped.file},
                               {"offset", skipped.offset},
                               {"why", skipped.why}}));
}

}  // namespace lockstep::trainer::report
