#include "operator/cli/chaos_run.h"

#include <fmt/format.h>

#include <utility>

#include "operator/cli/run_report.h"

namespace lockstep::cli {

Result<std::unique_ptr<ChaosRun>> ChaosRun::start(const ChaosPlan& plan, local::PodRuntime& runtime,
                                                  std::function<Status()> restart_controller, Clock& clock) {
  LOCKSTEP_TRY(auto ledger, LedgerReader::open(plan.ledger));
  return std::unique_ptr<ChaosRun>(
      new ChaosRun(plan, std::move(ledger), runtime, std::move(restart_controller), clock));
}

ChaosRun::ChaosRun(const ChaosPlan& plan, std::unique_ptr<LedgerReader> ledger, local::PodRuntime& runtime,
                   std::function<Status()> restart_controller, Clock& clock)
    : plan_(plan),
      ledger_(std::move(ledger)),
      maker_(std::in_place, runtime, std::move(restart_controller), clock),
      chaos_(
          plan.schedule, [this](const Fault& fault) { return maker_->make(fault); }, clock) {}

std::string ChaosRun::introduction() const {
  return fmt::format(
      "chaos with seed {}: {} faults; restart.maxRestarts is {} in this run, so that they do not consume the job's own "
      "budget",
      plan_.wish.seed, plan_.wish.faults, plan_.max_restarts);
}

std::vector<std::string> ChaosRun::look() {
  if (!maker_) return {};
  maker_->thaw();
  ledger_->read();
  const LedgerRecord& record = ledger_->record();
  std::vector<std::string> said;
  for (const ChaosEvent& event : chaos_.look({record.newest_step, record.commits, record.total_steps})) {
    said.push_back(describe(event, plan_.wish.faults));
  }
  return said;
}

void ChaosRun::end() {
  maker_.reset();
}

ChaosReport ChaosRun::report(const api::TrainingJobStatus& status) {
  ledger_->read();
  const bool succeeded = exit_status(status) == 0;
  return {.wish = plan_.wish,
          .events = chaos_.events(),
          .left = chaos_.left(),
          .ledger = judge_ledger(ledger_->record(), succeeded),
          .succeeded = succeeded,
          .restarts = status.restarts.total,
          .charged = status.restarts.charged,
          .max_restarts = plan_.max_restarts};
}

}  // namespace lockstep::cli
