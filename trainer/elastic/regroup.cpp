#include "trainer/elastic/regroup.h"

#include <utility>

#include "trainer/comm/ring_communicator.h"
#include "trainer/elastic/ending.h"

namespace lockstep::trainer::elastic {
namespace {

using rendezvous::AgentMessage;

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);  // between checks of the stop token

Result<AgentMessage> wait_for_order(AgentLink& agent, const StopToken& stop) {
  while (true) {
    auto order = agent.next_order(kBetweenLooks);
    if (order || order.error().code != ErrorCode::kDeadlineExceeded) return order;
    if (stop.reason() == StopReason::kAgentLost)
      return fail(ErrorCode::kUnavailable, "the link to the agent has ended");
    if (stop.requested()) return fail(ErrorCode::kCancelled, "asked to stop while waiting for the next generation");
  }
}

}  // namespace

Result<Regrouped> regroup(AgentLink& agent, Interruption& interruption, const StopToken& stop, const World& world,
                          const rendezvous::StateVersion& version, Duration link_deadline) {
  while (true) {
    LOCKSTEP_TRY(const AgentMessage order, wait_for_order(agent, stop));
    if (order.kind == AgentMessage::Kind::kRegroup) {
      agent.holding({order.regroup.term, order.regroup.generation, version});
      continue;
    }
    // `interruption` was raised for the regroup of this join before the join came; from here on only a newer one raises
    // it.
    interruption.clear();
    if (agent.has_order()) continue;
    LOCKSTEP_TRY(World next, joined(world, order.join));
    LOCKSTEP_TRY(comm::RingOptions options, ring_options(next));
    options.cancel_fd = interruption.fd();
    options.init_deadline = link_deadline;
    int suspect = -1;
    const auto since = std::chrono::steady_clock::now();
    auto communicator = comm::make_communicator(std::move(options), &suspect);
    if (communicator) {
      interruption.use(communicator->get());
      return Regrouped{std::move(next), std::move(communicator).value(), std::chrono::steady_clock::now() - since};
    }
    if (!caused_by_peer(communicator.error().code)) return communicator.error();
    if (!agent.has_order()) agent.broken({next.generation, suspect, communicator.error().message});
  }
}

}  // namespace lockstep::trainer::elastic
