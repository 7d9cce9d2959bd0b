// The result of a run under chaos. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/cli/chaos.h"
#include "operator/cli/ledger_verdict.h"

namespace lockstep::cli {

struct ChaosReport {
  ChaosWish wish;
  std::vector<ChaosEvent> events;
  size_t left = 0;  // faults that were still to come when the job ended
  LedgerVerdict ledger;
  bool succeeded = false;         // the job
  int restarts = 0, charged = 0;  // generations that ended early; those charged to restart.maxRestarts
  std::int64_t max_restarts = 0;  // of this run

  // Whether the job succeeded and its ledgers have no violation.
  bool good() const { return succeeded && ledger.violations.empty(); }
};

// "chaos 7 of 60, after step 140: killed the worker of slot 2 (...)".
std::string describe(const ChaosEvent& event, int faults);
// How many faults of each kind, their cost, and the verdict; several lines.
std::string chaos_text(const ChaosReport& report);
nlohmann::json chaos_json(const ChaosReport& report);

// Raises spec.restart.maxRestarts by the faults that may be charged to it, so that the job's own failures keep their
// budget. Returns the new number.
std::int64_t raise_budget(nlohmann::json& job, const std::vector<Fault>& schedule);

}  // namespace lockstep::cli
