// The ledger of what a process applied to its state, step by step. From it an independent program can verify that each
// sample of each step was applied exactly once. A file of JSON lines per process, in a folder that the processes of a
// job may share. Lines, by "kind":
//
//   process  the first one: model, data and all settings that decide which bytes belong to which step.
//   enter    a generation began here: from which state (the generation that committed it, its step, its digest).
//   step     a step was committed: which micro-batches this rank computed for it, and what they were. A rank writes it
//            right after the commit, before it sends anything of the next step. So only the last step of a generation
//            may lack the line of a rank: one that was killed in between, or had not committed when the generation
//            ended.
//   skipped  a damaged record of the data, which the next intact one replaces. Once for each place that this rank
//            found, which may be ahead of its steps.
//
// A step that was not committed has no line. Times are CLOCK_MONOTONIC, in nanoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/result.h"
#include "trainer/report/line_file.h"

namespace lockstep::trainer::report {

struct LedgerProcess {
  std::string model;
  std::vector<std::string> data;  // files in the order in which they were read; empty: the model generates its own
  std::string backend;            // real numbers are float64 for "ref", else float32
  std::uint64_t seed = 0;
  bool deterministic = false;
  std::int64_t steps = 0;
  std::int64_t batch_size = 0;
  std::int64_t micro_batch_size = 0;
  std::int64_t context = 0;  // characters of a sample of text; 0: no text
};

struct LedgerEnter {
  std::int64_t generation = 0;
  int rank = 0;
  int world = 1;
  std::int64_t step = 0;          // of the state from which the generation continues
  std::int64_t committed_in = 0;  // the generation that committed it
  std::uint64_t digest = 0;
};

struct LedgerStep {
  std::int64_t step = 0;
  std::int64_t generation = 0;
  int rank = 0;
  int world = 1;
  std::vector<std::pair<std::int64_t, std::uint32_t>> batches;  // number in the global batch, CRC-32 of its bytes
  std::uint64_t digest = 0;                                     // of the state after it
};

struct LedgerSkipped {
  std::string file;
  std::uint64_t offset = 0;
  std::string why;
};

class Ledger {
 public:
  // A new file <folder>/<job uid, or "alone">-<pid>-<now>.jsonl with the line of the process. Creates the folder if it
  // does not exist. Errors are those of creating it and of LineFile.
  static Result<std::unique_ptr<Ledger>> open(const std::string& folder, const std::string& job_uid,
                                              const LedgerProcess& process);

  // Errors are those of LineFile::write. One thread.
  Status enter(const LedgerEnter& enter);
  Status step(const LedgerStep& step);
  Status skipped(const LedgerSkipped& skipped);

 private:
  explicit Ledger(std::unique_ptr<LineFile> file) : file_(std::move(file)) {}
  std::unique_ptr<LineFile> file_;
};

}  // namespace lockstep::trainer::report
