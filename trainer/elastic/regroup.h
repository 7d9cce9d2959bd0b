// Takes a process that keeps its memory from a generation that has ended to the next one. The steps are those of
// operator/rendezvous/worker_contract.h: broken, regroup, holding, join, new links.
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

// A generation whose links are connected.
struct Regrouped {
  World world;
  std::unique_ptr<comm::Communicator> communicator;  // `interruption` uses it already
  Duration linking{};                                // from the join order to connected links
};

// Obeys the agent's orders until the links of a generation are connected. Answers each regroup with `version`, connects
// for each join, and reports broken if a peer makes that fail. Before the call the caller has reported that the
// previous generation failed, and `interruption` has aborted and released its communicator. Waits for orders without a
// limit, and for links at most `link_deadline`. kCancelled: `stop` was requested; kUnavailable: the link to the agent
// has ended; kInvalid: the join is inconsistent; kExhausted: descriptors or memory.
Result<Regrouped> regroup(AgentLink& agent, Interruption& interruption, const StopToken& stop, const World& world,
                          const rendezvous::StateVersion& version, Duration link_deadline = std::chrono::seconds(20));

}  // namespace lockstep::trainer::elastic
