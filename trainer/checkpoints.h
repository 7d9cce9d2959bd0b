// Checkpoints of a training: where it starts from, what it saves, and when a checkpoint is published.
//
// Rank 0 writes, beside training. A checkpoint is published once a collective that follows its step has succeeded. So
// each published one is of a state that all ranks committed.
#pragma once

#include <optional>
#include <string>

#include "trainer/checkpoint/writer.h"
#include "trainer/rank.h"

namespace lockstep::trainer {

// Failures come from kRestore where a checkpoint is read to continue from it, and from kSave where one is written. They
// come from kCommunication where the ranks agree on it. One thread.
class Checkpoints {
 public:
  // `rank` must outlive it.
  explicit Checkpoints(Rank& rank) : rank_(rank) {}

  // Loads one checkpoint on all ranks. The agent names it; without an agent, rank 0 chooses the newest. If there is
  // none, all ranks take the state before the first step. Every rank calls it.
  Outcome<> restore();

  // In a generation whose ranks agree on the state, before its first step: prepares the leading rank to write.
  Outcome<> enter();

  // The state of another rank has replaced this one's.
  Outcome<> state_was_replaced();

  // Whether --checkpoint-every-steps wants one of this step.
  bool due_by_step(std::int64_t step) const;
  // Whether this rank wishes that the ranks write one of the next step, by its number or by time.
  bool wanted(std::int64_t next) const;

  // Writes a checkpoint of the state, unless one was written or restored. Every rank calls it. kInternal: the ranks
  // hold different states.
  Outcome<> save(checkpoint::Busy busy);

  // To be called when a collective has just succeeded: publishes what was written before it, and reports what was
  // published.
  Outcome<> publish();

  // Writes the last checkpoint and waits until it is published. Every rank calls it.
  Outcome<> settle();

  // The name of the checkpoint of the best evaluation; empty: there is none. Reads the storage.
  Outcome<std::string> best() const;

  // This process is told to end while it waits for another generation: saves its state without a collective.
  Outcome<> save_alone();

  // Drops what is not published, before the process ends. False: the storage has not answered within `deadline`, and
  // this object must not be destroyed.
  bool close(Duration deadline);

 private:
  Outcome<> make_writer(bool among_others);
  Outcome<> drop_writer();
  Outcome<> drain();
  Outcome<> adopt();
  void tell(const checkpoint::Published& published) const;
  checkpoint::Identity identity() const;
  Result<checkpoint::Contents> contents() const;

  Rank& rank_;
  std::unique_ptr<checkpoint::Writer> writer_;  // of rank 0, if there is a directory
  std::optional<Clock::time_point> saved_;      // the last save, or the first entry
  std::int64_t saved_step_ = -1;                // newest that was given to the writer or restored
};

}  // namespace lockstep::trainer
