// How a process that keeps its memory comes from a generation that has ended to the next one, as
// operator/rendezvous/worker_contract.h draws it: broken, regroup, holding, join, new links.
#pragma once

#include <memory>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/rendezvous/worker_contract.h"
#include "trainer/comm/communicator.h"
#include "trainer/elastic/agent_link.h"
#include "trainer/elastic/interruption.h"
#include "trainer/elastic/stop.h"
#include "trainer/elastic/world.h"

namespace lockstep::trainer::elastic {

// A generation whose links stand.
struct Regrouped {
  World world;
  std::unique_ptr<comm::Communicator> communicator;  // `interruption` uses it already
  Duration linking{};                                // from the order to join until then
};

// Obeys the agent's orders until the links of a generation stand: answers each regroup with `version`, links for each
// join, and says broken where a peer spoils that. Whoever saw the generation of before fail has said so; its
// communicator is aborted, and `interruption` does not use it any more. Waits for orders without a limit of its own,
// and for links at most `link_deadline`. kCancelled: `stop` was requested; kUnavailable: the link to the agent has
// ended; kInvalid: the join makes no sense; kExhausted: descriptors or memory.
Result<Regrouped> regroup(AgentLink& agent, Interruption& interruption, const StopToken& stop, const World& world,
                          const rendezvous::StateVersion& version, Duration link_deadline = std::chrono::seconds(20));

}  // namespace lockstep::trainer::elastic
