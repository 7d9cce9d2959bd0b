// A trainer process as the explorer sees it: which generation it is in, which state it holds, and what it was asked.
// It is the model of trainer/elastic and trainer/generations.cpp; the faults that those could have are put in
// here.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/rendezvous/protocol.h"
#include "tests/operator/rendezvous/explorer_fingerprint.h"

namespace lockstep::rendezvous::explorer {

// A state of the model, told by the generation that committed each of its steps: no two different ones are ever equal.
using History = std::vector<std::int64_t>;

inline std::string digest_of(const History& history) {
  return history.empty() ? "initial" : fmt::format("{}", fmt::join(history, "."));
}
// The other way round; also of the name of a checkpoint, which is the digest of its state.
History history_of(const std::string& digest);

inline StateVersion version_of(const History& history) {
  return {history.empty() ? 0 : history.back(), static_cast<std::int64_t>(history.size()), digest_of(history)};
}

// Whether who holds `own` has to take `wanted` from somebody.
bool other_state(const StateVersion& own, const StateVersion& wanted);

struct Process {
  enum class Stage {
    kEntering,  // waits for the other ranks to link
    kTaking,    // the links stand; it receives the state
    kWaiting,   // the links stand, and it holds the state; others may not
    kTraining,
  };
  std::int64_t generation = 0;
  int rank = 0;
  std::vector<int> slots;  // of the ranks of the generation
  std::string key;
  StateSource source;
  std::string restore;

  Stage stage = Stage::kEntering;
  bool introduced = false;            // has trained: it stays when its generation breaks
  bool committing = false;            // the last all-reduce of a step has ended here
  bool yields = false;                // asked to end the generation after a step
  bool yielding = false;              // the ranks have agreed to do so after this step
  bool done = false;                  // training is over: it exits with 0
  bool broke = false;                 // its communicator has failed, and it has said so
  bool told_to_end = false;           // SIGTERM
  std::optional<GenerationId> asked;  // a regroup that it has not answered yet
  std::int64_t promised = 0;          // highest regroup that it has answered
  std::optional<History> state;       // none: a new process
  bool torn = false;                  // its memory is a mixture, whatever it says
  bool saves = false;                 // rank 0 of a job with checkpoints

  // Whether a step of generation `number` may count on it.
  bool takes_part(std::int64_t number) const { return generation == number && promised <= number && !broke; }
  int next_rank() const { return (rank + 1) % static_cast<int>(slots.size()); }
  // A step of its generation has been committed here.
  bool stepped() const { return state && !state->empty() && state->back() == generation; }
  StateVersion version() const { return state ? version_of(*state) : StateVersion{}; }

  // In the generation of `go` from now on.
  void enter(const Go& go);
  // Ends its communicator for the generation that it was asked for.
  Holding answer();
  // Half of the giver's state has come when the links fail.
  void tear();
};

void add(Fingerprint& to, const Process& process);

}  // namespace lockstep::rendezvous::explorer
