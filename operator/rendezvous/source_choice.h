// Rule 8, "versions": of the states that ranks hold, which one all go on from, and who gives it. Pure; the
// coordinator's state machine asks before each GO.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

struct HeldState {
  int rank = 0;  // in the generation to come
  StateVersion version;
};

struct SourceChoice {
  StateSource source;
  // Ranks that committed the same step in the same generation hold different replicas, which must not be. The text says
  // what each rank holds, and whose replica was taken. Empty: they are bitwise identical.
  std::string divergence;
};

// The newest version that anybody holds, unless `checkpoint` is of a later step: then nobody is the source. Where equal
// versions have different bits, those that most ranks hold win, then those of the lowest rank. Of several that hold it,
// the one gives it that is before a rank of another state in the ring of `ranks`. `held` is in order of rank.
SourceChoice choose_source(const std::vector<HeldState>& held, int ranks,
                           const std::optional<CheckpointReport>& checkpoint);

}  // namespace lockstep::rendezvous
