// Streams the newest state to the ranks that hold another one, each from the previous rank in the ring. Every rank of a
// generation takes part. No death of a rank tears a state. A receiver verifies the whole new state in separate memory
// before it changes a byte of its own. That memory is the caller's spare one if it is large enough. Only a rank that
// holds nothing of value receives in place.
#pragma once

#include <cstddef>
#include <span>

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/state.h"

namespace lockstep::trainer::core {

// Values that belong to a state and are not in it: losses that the leading rank reports.
struct TransferNotes {
  double first_held_out_loss = 0;
  double loss = 0;  // of the step that made the state
};

struct Transferred {
  bool installed = false;  // false: this rank held exactly that version, and its state was not touched
  TransferNotes notes;     // of the source
};

// The value of this rank's own state.
enum class Held {
  kState,    // training could continue from it
  kNothing,  // it may be overwritten before all of the new one has arrived, and is garbage after an error
};

// Every rank calls it with the same `source` and `version`; `notes` count if rank() is `source`. Every rank holds
// `version` afterwards; one that held it before keeps its memory untouched. After an error a kState is unchanged.
// `spare` is memory whose bytes nobody needs, such as Replica::spare(): a kState receives into it. If it has fewer than
// state.bytes(), the call allocates a second state.
// Errors: the communicator's (abort it; then nothing refers to memory of this call); kExhausted: no memory for a second
// state; kInternal: the source does not hold `version`, its state is of another model, or the received bits do not
// match the digest.
Result<Transferred> transfer_state(State& state, comm::Communicator& communicator, int source, const Version& version,
                                   const TransferNotes& notes, Held held, std::span<std::byte> spare);

}  // namespace lockstep::trainer::core
