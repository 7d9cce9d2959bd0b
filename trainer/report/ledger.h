// The ledger: what a process applied to its state, step by step, so that somebody who did not write the trainer can
// count afterwards whether each sample of each step was applied exactly once. A file of JSON lines per process, in a
// folder that the processes of a job may share. Lines, by "kind":
//
//   process  the first one: what is trained on what, all that is needed to say which bytes belong to which step.
//   enter    a generation began here: from which state (the generation that committed it, its step, its digest).
//   step     a step was committed: which micro-batches this rank computed for it, and what they were. It is written
//            right after the commit, before anything of the next step leaves this process, so that of all steps of a
//            generation only the last may lack the line of a rank: of one that was killed in between, or that had not
//            committed when the generation ended.
//
// Nothing is said of a step that was not committed. Times are CLOCK_MONOTONIC, in nanoseconds.
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
  std::vector<std::string> data;  // files in the order in which they were read; empty: the model makes its own
  std::string backend;            // real numbers are float32 for "cpu", float64 for "ref"
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
  std::int64_t step = 0;          // of the state from which the generation goes on
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

class Ledger {
 public:
  // A new file <folder>/<job uid, or "alone">-<pid>-<now>.jsonl with the line of the process; the folder is made when
  // it is not there. Errors are those of making it and of LineFile.
  static Result<std::unique_ptr<Ledger>> open(const std::string& folder, const std::string& job_uid,
                                              const LedgerProcess& process);

  // Errors are those of LineFile::write. One thread.
  Status enter(const LedgerEnter& enter);
  Status step(const LedgerStep& step);

 private:
  explicit Ledger(std::unique_ptr<LineFile> file) : file_(std::move(file)) {}
  std::unique_ptr<LineFile> file_;
};

}  // namespace lockstep::trainer::report
