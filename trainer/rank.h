// One rank of a job: its flags, its place in the world, and all that it trains with. The parts of a training share it
// (training.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "trainer/activity_board.h"
#include "trainer/best.h"
#include "trainer/choose_backend.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/step.h"
#include "trainer/core/synchronizer.h"
#include "trainer/elastic/agent_link.h"
#include "trainer/elastic/interruption.h"
#include "trainer/elastic/outcome.h"
#include "trainer/elastic/stop.h"
#include "trainer/elastic/world.h"
#include "trainer/flags.h"
#include "trainer/task.h"

namespace lockstep::trainer {

using elastic::Failure;
using elastic::from;
using elastic::Origin;
using elastic::Outcome;

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline std::int64_t milliseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

// Deadline of Communicator::abort(), and of the writer of checkpoints at the end. A process that overruns it ends by
// _Exit.
inline constexpr std::chrono::seconds kAbortDeadline{2};

// Mean losses of a sample. They belong to the state, and travel with it.
struct Losses {
  double last = 0;  // of the last step, before its update
  double first_held_out = 0;
};

struct Rank {
  // `token` must outlive the rank.
  Rank(Flags given, elastic::StopToken& token) : flags(std::move(given)), stop(token) {}
  ~Rank();

  bool leads() const { return world.rank == 0; }
  core::State& state() const { return replica->state(); }
  std::int64_t epoch() const { return state().samples / task->data.epoch_samples; }
  // Whether its agent can take this process, with its state, from one generation to the next.
  bool can_regroup() const { return agent->present() && world.source == elastic::World::Source::kAgent; }
  // The rank that seems to be the cause of a communicator's error; -1: none.
  int suspect() const { return communicator ? communicator->suspect() : unlinked; }
  // Whose error a failed step or evaluation of the replica is.
  Origin origin_of_step() const { return replica->samples_failed() ? Origin::kData : Origin::kCommunication; }
  // Everything that the bits of a micro-batch's gradient depend on; empty: its last bits do not matter.
  std::string numerics_id() const;

  Flags flags;
  elastic::StopToken& stop;
  elastic::World world;
  ActivityBoard board;                                  // outlives the link, whose thread reads it
  std::unique_ptr<elastic::Interruption> interruption;  // outlives the link, whose thread raises it
  std::unique_ptr<elastic::AgentLink> agent;
  std::optional<BackendChoice> choice;  // from find_place() to load()
  std::unique_ptr<core::Backend> backend;
  std::unique_ptr<Task> task;
  data::Opening opening;  // if text is generated
  std::unique_ptr<comm::Communicator> communicator;
  int unlinked = -1;  // the rank to which this one could not connect at its start
  std::unique_ptr<core::Synchronizer> synchronizer;
  std::unique_ptr<core::Replica> replica;

  std::int64_t generation = 0;   // that commits, and in names of checkpoints
  bool whole = false;            // the state is one that a generation agreed on
  bool initial = false;          // it is the one before the first step, until one is committed or received
  rendezvous::EntryTimes entry;  // into this generation
  Losses losses;
  Best best;                    // if flags follow it
  core::Evaluation evaluation;  // the last one
};

// Finds the rank's place in the world, and chooses its backend. Resolves the flags. kConfig: flags and environment
// contradict each other, or the machine lacks something; kDevice: it has no GPU for --backend=cuda.
Outcome<> find_place(Rank& rank);

// Creates the task of a rank that has its place, with the backend that suits it, and tells the agent what the rank is.
// kData: reading the data; kConfig: the prompt, or flags that follow the best evaluation of data without held-out
// samples.
Outcome<> load(Rank& rank);

// Connects a rank that has its place with its peers. A rank under torchrun has loaded before, because it tells them
// what it is. kCommunication: connecting.
Outcome<> connect(Rank& rank);

// Makes the replica of a rank that is loaded and connected. kConfig: the backend lacks something of the model, or there
// is no memory for it; kDevice: the GPU of --backend=cuda has no memory for it, or fails.
Outcome<> make_replica(Rank& rank);

// Gives all ranks the best evaluation of rank `from`. Does nothing where flags do not follow it. Every rank calls it at
// the same place. kCommunication.
Outcome<> share_best(Rank& rank, int from);

}  // namespace lockstep::trainer
