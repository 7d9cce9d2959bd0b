// What a training says: lines for people, the result and the metrics file for tools, progress for the agent, and the
// ledger. Rank 0 prints; each rank keeps its own ledger.
#pragma once

#include <memory>
#include <optional>

#include "trainer/rank.h"
#include "trainer/report/benchmark.h"
#include "trainer/report/ledger.h"
#include "trainer/report/report.h"

namespace lockstep::trainer {

// One thread.
class Reports {
 public:
  // `rank` must outlive it.
  explicit Reports(Rank& rank);

  // Opens the metrics file on the leading rank, and closes it on others. kConfig.
  Outcome<> open_metrics();
  // Opens the ledger of this process, if flags ask for one. kConfig.
  Outcome<> open_ledger();

  // The rank begins a generation with the state that it has: a line of the ledger. kSave.
  Outcome<> enter_in_ledger();
  // The rank is in a generation, for the `first` time or again.
  void entered(bool first);

  // The step that was just committed: a line of the ledger. kSave.
  Outcome<> commit_to_ledger();
  // Damage of the data that was skipped since the last call: lines for people and of the ledger. kSave.
  Outcome<> skipped();
  // The step that was just committed took `seconds`. kSave: the metrics file.
  Outcome<> step(const core::StepReport& report, double seconds);

  // The held-out loss was measured.
  void evaluated();

  // The end of the leading rank: a sample of text, if flags ask for one, and the result. kInternal.
  Outcome<> result();

 private:
  report::StepParts take_parts();
  report::StepTraffic take_traffic();
  void measure_peak();
  double flops_of_a_sample() const;
  void tell_progress() const;
  void print_configuration() const;
  Outcome<> print_sample() const;
  void add_benchmark(report::Record& record) const;
  void add_circumstances(report::Record& record) const;
  void print_result(const std::string& digest) const;

  Rank& rank_;
  std::unique_ptr<report::MetricsFile> metrics_;  // null: none is written here
  std::unique_ptr<report::Ledger> ledger_;        // null: none is kept
  report::Throughput throughput_;
  std::optional<report::Benchmark> benchmark_;  // if flags ask for one
  core::StepTimes told_;                        // the replica's when the last step was reported
  std::uint64_t told_travelling_ns_ = 0;        // the communicator's, then
  double peak_ = 0;                             // FLOP/s of this rank's backend; 0: not measured
  const Clock::time_point started_;
  std::size_t skipped_ = 0;      // places of the data
  std::int64_t first_step_ = 0;  // committed steps when this process began
};

}  // namespace lockstep::trainer
