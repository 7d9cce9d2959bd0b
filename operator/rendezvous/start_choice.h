// Which rank is late when a generation does not come up in time. Pure; the coordinator's state machine asks at the
// deadline.
//
// Processes of our trainer come up together, because they meet in a collective first: while one still loads, none is
// up. A process sends its identity line once it has loaded. So a rank without a line is still loading.
// Where that tells nothing, no rank is blamed: all of them wait for something that they share.
#pragma once

#include <string>
#include <vector>

#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

// A slot whose processes have not all reported that they are up.
struct StartingMember {
  int slot = 0;
  int first_rank = 0;
  std::string pod;
  const std::vector<IdentityRun>* identities = nullptr;  // not owned; empty: none of its processes has said a line
};

struct LateStart {
  int slot = -1, rank = -1;  // to blame; -1: none
  std::string who;           // "slot 2 (pod a-2-1)", or "slots 0, 1, 2"
};

// `missing`: at least one, in order of rank. `together`: they come up together; else each that is missing is late.
// Several that are late are all named, and the first is blamed.
LateStart choose_late(const std::vector<StartingMember>& missing, bool together);

}  // namespace lockstep::rendezvous
