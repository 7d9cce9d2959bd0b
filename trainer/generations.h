// From one generation to the next without losing the state of this process.
#pragma once

#include <optional>

#include "trainer/checkpoints.h"
#include "trainer/rank.h"

namespace lockstep::trainer {

// One thread.
class Generations {
 public:
  // Both must outlive it.
  Generations(Rank& rank, Checkpoints& checkpoints) : rank_(rank), checkpoints_(checkpoints) {}

  // Waits, with everything loaded, and without a rank until a generation takes this process in. An exit code: the
  // process must end instead. Failures as of regroup().
  Outcome<std::optional<int>> stand_by();

  // Takes part in streaming the source's state to the ranks that hold another one. kInternal: the source's version
  // makes no sense; kCommunication: the transfer; kSave: storage that does not answer holds the old state's writer.
  Outcome<> take_state();

  // Tells the agent that this process is up in the generation. Returns whether for the first time.
  bool introduce();

  // All ranks are here. Ends the generation after this step, so that others can join; returns the failure that ends it.
  Failure yield();

  // Whether `failure` ended the generation alone, so that this process may continue in another. Its origin is
  // kCommunication, another process or an interruption caused it, and the agent expects this process to wait.
  bool may_regroup(const Failure& failure) const;

  // Leaves the generation, which `why` ended, and connects with the next one. An exit code: the process must end
  // instead. kCommunication: the communicator could not be ended; kInternal: the orders of the agent, or connecting;
  // kSave: saving the state of a process that is told to end meanwhile.
  Outcome<std::optional<int>> regroup(const Error& why);

 private:
  Outcome<std::optional<int>> next();
  rendezvous::StateVersion holds() const;

  Rank& rank_;
  Checkpoints& checkpoints_;
  bool introduced_ = false;  // the agent knows that this process is up in a generation
  bool stands_by_ = false;   // the agent knows that this process waits for its first generation
  bool yielded_ = false;     // the ranks have ended the generation, and nothing failed
};

}  // namespace lockstep::trainer
