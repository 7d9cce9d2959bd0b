// The contents of a running job's ledgers (trainer/report/ledger.h has the format), read while they grow.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::cli {

// One generation, from the lines of its ranks; the maps are by rank. Times are CLOCK_MONOTONIC, in nanoseconds.
struct LedgerGeneration {
  struct Entered {
    std::int64_t from_step = 0, committed_in = 0;
    std::string digest;
    std::int64_t ns = 0;
  };
  struct Committed {
    int world = 0;
    std::vector<std::int64_t> batches;  // micro-batches that the rank computed
    std::string digest;                 // "": none was written
    std::int64_t ns = 0;
  };
  std::map<int, Entered> entered;
  std::map<std::int64_t, std::map<int, Committed>> steps;  // by step
};

struct LedgerRecord {
  std::int64_t total_steps = 0, micro_batches = 0;  // of the job, of each step; 0: no process has said it so far
  std::int64_t newest_step = 0;                     // highest step that any rank has committed
  std::int64_t commits = 0;                         // steps that a generation committed, repeated ones each time
  std::map<std::int64_t, LedgerGeneration> generations;
  std::vector<std::string> oddities;  // lines that contradict a single run of one job: a sentence each
};

// Reads the ledgers in a folder, each line once. One thread.
class LedgerReader {
 public:
  // Creates `folder` if it does not exist. kUnavailable, kExhausted: it cannot be watched. Existing files belong to
  // another run and are not read.
  static Result<std::unique_ptr<LedgerReader>> open(const std::string& folder);
  ~LedgerReader();
  LedgerReader(const LedgerReader&) = delete;
  LedgerReader& operator=(const LedgerReader&) = delete;

  // Reads what was written since the last call. Does not wait.
  void read();
  const LedgerRecord& record() const { return record_; }

 private:
  LedgerReader(std::string folder, int watch) : folder_(std::move(folder)), watch_(watch) {}
  void read_file(const std::string& name);

  struct File {
    std::int64_t read = 0;  // bytes
    std::string rest;       // of an unfinished line
    bool foreign = false;   // it existed before
  };
  const std::string folder_;
  const int watch_;
  std::map<std::string, File> files_;
  LedgerRecord record_;
};

// Adds one line of a ledger to `record`. For tests, and for the reader.
void add_ledger_line(LedgerRecord& record, const std::string& file, const std::string& line);

}  // namespace lockstep::cli
