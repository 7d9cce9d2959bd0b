// Gives the newest state to the ranks that hold another one, each from the rank before it in the ring. Every rank of a
// generation takes part; nobody's state is torn, whoever dies: what arrives is checked as a whole, in memory of its
// own, before a byte of the state changes. Only who holds nothing that counts takes it where it belongs.
#pragma once

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/state.h"

namespace lockstep::trainer::core {

// What belongs to a state and is not in it: losses that whoever leads reports.
struct TransferNotes {
  double first_held_out_loss = 0;
  double loss = 0;  // of the step that made the state
};

struct Transferred {
  bool installed = false;  // false: this rank held exactly that version, and its state was not touched
  TransferNotes notes;     // of the source
};

// What this rank's own state is worth.
enum class Held {
  kState,    // one that training could go on from
  kNothing,  // no such: it may be overwritten before all of the new one is here, and is garbage after an error
};

// Every rank calls it with the same `source` and `version`; `notes` count where rank() is `source`. A rank that holds
// `version` keeps what it has, every other one holds it afterwards. Errors, after which a state that was held is what
// it was: the communicator's (abort it, then nothing refers to memory of this call); kExhausted: no memory for a second
// state; kInternal: the source does not hold `version`, its state is of another model, or the bits that came are not
// those of the digest.
Result<Transferred> transfer_state(State& state, comm::Communicator& communicator, int source, const Version& version,
                                   const TransferNotes& notes, Held held);

}  // namespace lockstep::trainer::core
