// The chaos of one `lockstep run`: its schedule, its fault maker, and the ledgers that time the faults and give the
// verdict.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/cli/chaos.h"
#include "operator/cli/chaos_report.h"
#include "operator/cli/fault_maker.h"
#include "operator/cli/ledger_record.h"
#include "operator/local/pod_runtime.h"

namespace lockstep::cli {

struct ChaosPlan {
  ChaosWish wish;
  std::vector<Fault> schedule;
  std::int64_t max_restarts = 0;  // the raised restart.maxRestarts
  std::string ledger;             // folder of the program's ledgers
};

// One thread.
class ChaosRun {
 public:
  static constexpr Duration kTick = std::chrono::milliseconds(20);  // interval between calls of look()

  // To be called before the job starts. `plan`, `runtime` and `clock` must outlive it, the runtime until end(). Errors
  // are those of LedgerReader::open().
  static Result<std::unique_ptr<ChaosRun>> start(const ChaosPlan& plan, local::PodRuntime& runtime,
                                                 std::function<Status()> restart_controller, Clock& clock);

  // For the user, before the run: the seed, and the budget.
  std::string introduction() const;
  // Makes the faults that are due. A sentence for each one that is done.
  std::vector<std::string> look();
  // Thaws frozen workers; makes no further fault.
  void end();
  // To be called once no process runs.
  ChaosReport report(const api::TrainingJobStatus& status);

 private:
  ChaosRun(const ChaosPlan& plan, std::unique_ptr<LedgerReader> ledger, local::PodRuntime& runtime,
           std::function<Status()> restart_controller, Clock& clock);

  const ChaosPlan& plan_;
  const std::unique_ptr<LedgerReader> ledger_;
  std::optional<FaultMaker> maker_;  // until end()
  Chaos chaos_;
};

}  // namespace lockstep::cli
