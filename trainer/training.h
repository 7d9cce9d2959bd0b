// A whole run of one rank, from its flags and its place in the world to its exit code.
//
// The run is a sequence of generations. In each the ranks enter together (one state on all of them), then train until
// the end or until a peer goes away. A process whose agent can regroup it keeps its state and enters the next
// generation; every other process ends. Agreements of the last step in band are dropped, because only the ranks that
// committed it know them. Ranks raise their wishes again, and redo what follows from the number of the step alone.
//
// The parts: rank.h (what the rank is and trains with), checkpoints.h, reports.h, generations.h. Each failure carries
// its origin (elastic/outcome.h), which decides the exit code. Only a failure of kCommunication may lead to another
// generation:
//
//   --backend=cuda: the GPU, its driver and libraries, its memory for the replica                  kDevice
//   flags, environment, agent, backend, prompt, metrics file, ledger file, memory of the replica   kConfig
//   reading the data                                                                               kData
//   connecting, a step, an evaluation, comparing states, transferring one, ranks that leave        kCommunication
//   loss or gradient that is not finite                                                            kNumerics
//   finding and loading a checkpoint to continue from                                              kRestore
//   writing, flushing, adopting a checkpoint; lines of the ledger and of the metrics file          kSave
//   states that differ, orders of the agent, a lost agent, the sample, the result                  kInternal
//
// A failed step or evaluation is kData if the samples are the cause (Rank::origin_of_step()), else kCommunication;
// the error's code says whether a peer is the cause (ending.h).
#pragma once

#include <cstdint>

#include "trainer/checkpoints.h"
#include "trainer/core/step.h"
#include "trainer/elastic/stop.h"
#include "trainer/flags.h"
#include "trainer/generations.h"
#include "trainer/rank.h"
#include "trainer/reports.h"

namespace lockstep::trainer {

class Training {
 public:
  // `stop` must outlive the training.
  Training(Flags flags, elastic::StopToken& stop);

  // Runs to the end. Returns the exit code (worker_contract.h); prints one sentence to standard error if it is not 0.
  int run();

 private:
  Outcome<int> train();
  Outcome<> set_up();
  Outcome<int> one_generation();
  Outcome<> enter();
  Outcome<> catch_up();
  Outcome<> supervised() const;
  void wait_for_min_step_time() const;
  core::Control wish() const;
  Outcome<> committed(const core::StepReport& report);
  Outcome<> evaluate();
  bool evaluation_is_due() const;
  bool best_is_due() const;
  bool ends_early() const;
  Outcome<int> stopped();
  Outcome<int> ranks_leave(bool leaves, int leaving);
  Outcome<int> finish();
  void name_best();

  std::int64_t step() const { return rank_.state().step; }

  Rank rank_;
  Checkpoints checkpoints_{rank_};
  Reports reports_{rank_};
  Generations generations_{rank_, checkpoints_};
  Clock::time_point step_started_;
  std::int64_t evaluated_step_ = -1;
  bool storage_hangs_ = false;  // a thread waits for it, so nothing is destroyed
};

}  // namespace lockstep::trainer
