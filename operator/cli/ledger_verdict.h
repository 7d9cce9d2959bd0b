// The proof from a job's ledgers that each step was committed once, whole and with bitwise identical weights on all
// ranks. It also has the share of time spent on steps that count. Pure. It does not know the right bytes of a
// micro-batch: tests/ledger/check_ledger.py recomputes those too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "operator/cli/ledger_record.h"

namespace lockstep::cli {

// A stretch of time without work on a step that counts.
struct LostTime {
  std::int64_t end_ns = 0;  // CLOCK_MONOTONIC
  std::int64_t ns = 0;
};

struct LedgerVerdict {
  std::vector<std::string> violations;             // a sentence each
  std::map<std::int64_t, std::int64_t> effective;  // step -> the generation whose commit of it counts
  std::int64_t done_again = 0;                     // commits that a later generation repeated
  std::int64_t wall_ns = 0;                        // from the first generation's start to the last commit
  std::vector<LostTime> lost;                      // by end

  std::int64_t lost_ns() const;
  // The share of the time that went into steps that count; 0 if there was no training.
  double goodput() const;
};

// The time of a step is that from the commit before it, in the same generation, or from the generation's start. One
// that took more than four times the mean counts as that much, and the rest as lost. `finished`: every step must be
// there.
LedgerVerdict judge_ledger(const LedgerRecord& record, bool finished);

}  // namespace lockstep::cli
