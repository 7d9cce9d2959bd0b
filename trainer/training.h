// A whole run of one rank, from its flags and its place in the world to its exit code.
//
// The run is a sequence of generations. In each the ranks enter together (one state on all of them), then train until
// the end or until a peer goes away. A process whose agent can regroup it keeps its state and enters the next
// generation; every other process ends. Agreements of the last step in band are dropped, because only the ranks that
// committed it know them. Ranks raise their wishes again, and redo what follows from the number of the step alone.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "operator/base/result.h"
#include "trainer/activity_board.h"
#include "trainer/checkpoint/writer.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/step.h"
#include "trainer/elastic/agent_link.h"
#include "trainer/elastic/ending.h"
#include "trainer/elastic/interruption.h"
#include "trainer/elastic/stop.h"
#include "trainer/elastic/world.h"
#include "trainer/flags.h"
#include "trainer/report/ledger.h"
#include "trainer/report/report.h"
#include "trainer/task.h"

namespace lockstep::trainer {

class Training {
 public:
  // `stop` must outlive the training.
  Training(Flags flags, elastic::StopToken& stop);
  ~Training();

  // Runs to the end. Returns the exit code (worker_contract.h); prints one sentence to standard error if it is not 0.
  int run();

 private:
  static constexpr std::chrono::seconds kAbortDeadline{2};  // after it the process has to end

  Result<int> train();
  Status set_up();
  Status enter();
  Status begin();
  Status catch_up();
  Result<int> go_on();
  Status looked_after();
  void pass_time() const;
  Result<int> stopped();
  Result<int> part(bool leaves, int leaving);
  Error yield();
  Result<int> finish();

  // From one generation to the next.
  bool can_regroup() const;
  bool may_regroup(const Error& error) const;
  Result<std::optional<int>> stand_by();
  Result<std::optional<int>> regroup(const Error& why);
  Result<std::optional<int>> next_generation();
  Status take_state();
  rendezvous::StateVersion holds() const;

  // Sources of a state that no rank has.
  Status restore();

  // Pieces of a step.
  core::Control wish() const;
  bool due_by_step(std::int64_t step) const;
  Status prepare_metrics();
  Status open_ledger();
  Status enter_in_ledger();
  Status commit_to_ledger();
  Status prepare_writer();
  Status after_step(const core::StepReport& report);
  void tell_progress() const;
  Status evaluate();
  Status save(checkpoint::Busy busy);
  Status settle_checkpoints();
  Status drain_writer();
  Status save_alone();
  Status adopt_checkpoint();
  void tell_of_checkpoint(const checkpoint::Published& published);
  Status take_published();
  Status write_sample();

  bool leads() const { return world_.rank == 0; }
  std::int64_t epoch() const { return state().samples / task_->data.epoch_samples; }
  core::State& state() const { return replica_->state(); }
  std::string numerics_id() const;
  std::string identity_line() const;
  checkpoint::Identity identity() const;
  Result<checkpoint::Snapshot> snapshot() const;
  Status make_writer(bool among_others);
  void print_configuration() const;
  void print_result(const std::string& digest) const;

  Flags flags_;
  elastic::StopToken& stop_;
  elastic::Origin doing_ = elastic::Origin::kConfig;  // decides the exit code of an error from here on
  elastic::World world_;
  ActivityBoard board_;                                  // outlives the link, whose thread reads it
  std::unique_ptr<elastic::Interruption> interruption_;  // outlives the link, whose thread raises it
  std::unique_ptr<elastic::AgentLink> agent_;
  std::unique_ptr<core::Backend> backend_;
  std::unique_ptr<Task> task_;
  data::Opening opening_;  // if text is generated
  std::unique_ptr<comm::Communicator> communicator_;
  int unlinked_ = -1;  // the rank to which this one could not connect at its start
  std::unique_ptr<core::Synchronizer> synchronizer_;
  std::unique_ptr<core::Replica> replica_;
  std::unique_ptr<checkpoint::Writer> writer_;  // of rank 0, if there is a directory
  std::unique_ptr<report::MetricsFile> metrics_;
  std::unique_ptr<report::Ledger> ledger_;  // null: none is kept
  report::Throughput throughput_;

  using Clock = std::chrono::steady_clock;
  Clock::time_point started_, step_started_, saved_;
  std::int64_t generation_ = 0;   // that commits, and in names of checkpoints
  bool whole_ = false;            // the state is one that a generation agreed on
  bool initial_ = false;          // it is the one before the first step, until one is committed or received
  bool introduced_ = false;       // the agent knows that this process is up in a generation
  bool stands_by_ = false;        // the agent knows that this process waits for its first generation
  bool yielded_ = false;          // the ranks have ended the generation, and nothing failed
  std::int64_t first_step_ = 0;   // committed steps when this process began
  std::int64_t saved_step_ = -1;  // newest that was given to the writer or restored
  rendezvous::EntryTimes entry_;  // into this generation
  double loss_ = 0;               // of the last step
  double first_held_out_loss_ = 0, held_out_loss_ = 0;
  std::int64_t evaluated_step_ = -1;
};

}  // namespace lockstep::trainer
