// Gives one rank's state to the ranks that hold another one. Every rank of a generation takes part; nobody's state is
// torn, whoever dies: what arrives is checked as a whole, in memory of its own, before a byte of the state changes.
#pragma once

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/core/state.h"

namespace lockstep::trainer::core {

inline constexpr size_t kTransferChunk = size_t{4} << 20;  // most bytes of one broadcast

// What belongs to a state and is not in it: losses that whoever leads reports.
struct TransferNotes {
  double first_held_out_loss = 0;
  double loss = 0;  // of the step that made the state
};

struct Transferred {
  bool installed = false;  // false: this rank held exactly that version, and its state was not touched
  TransferNotes notes;     // of the source
};

// Every rank calls it with the same `source` and `version`; `notes` count where rank() is `source`. A rank that holds
// `version` keeps what it has, every other one holds it afterwards. Errors, after which the state is what it was:
// the communicator's (abort it, then nothing refers to memory of this call); kExhausted: no memory for a second state;
// kInternal: the source does not hold `version`, its state is of another model, or the bits that came are not those of
// the digest.
Result<Transferred> transfer_state(State& state, comm::Communicator& communicator, int source, const Version& version,
                                   const TransferNotes& notes);

}  // namespace lockstep::trainer::core
