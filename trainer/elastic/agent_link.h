// The process's end of the link to its agent (operator/rendezvous/worker_contract.h). It reports the state of training,
// and receives stop and regroup orders. Never blocks training: a thread of its own reads and writes. Without an agent
// every call does nothing.
#pragma once

#include <functional>
#include <memory>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/rendezvous/worker_contract.h"
#include "trainer/elastic/stop.h"

namespace lockstep::trainer::elastic {

class AgentLink {
 public:
  // Takes the descriptor and closes it; -1: no agent. `stop` is requested with kAgent on the agent's stop message and
  // with kAgentLost when the link ends or carries an invalid message; it must outlive the link. kInvalid: `fd` is not a
  // socket.
  static Result<std::unique_ptr<AgentLink>> open(int fd, StopToken& stop);
  // Gives queued messages at most 1 s to leave, then closes. Joins the thread.
  ~AgentLink();

  // Whether there is an agent.
  bool present() const { return impl_ != nullptr; }

  // Any thread; does not block. Messages leave in order; of progress only the newest is kept and at most 4 a second are
  // sent.
  void up(bool regroups, const rendezvous::EntryTimes& entry = {});
  void identity(const std::string& line);
  void progress(const rendezvous::Progress& progress);
  void checkpoint(const rendezvous::CheckpointReport& report);
  void failure(const rendezvous::FailureReport& report);
  void broken(const rendezvous::BrokenReport& report);
  void holding(const rendezvous::Holding& holding);

  // The link's thread sends the agent the result of `look` four times a second, also while the training thread is
  // stuck. `look` must not block, and what it reads must outlive the link. Set once.
  void watch(std::function<rendezvous::Activity()> look);

  // Orders: a regroup (kRegroup) with a higher (term, generation) replaces every older order. A join (kJoin) counts
  // once, and only for the newest regroup. The link's thread calls `interrupt` for each regroup that it accepts, when
  // next_order() can see the order and before it reads the agent's next message. `interrupt` must not block. Set once.
  void on_regroup(std::function<void()> interrupt);
  // Waits for the newest order that was not returned yet. kDeadlineExceeded: there is none; kUnavailable: the link has
  // ended, or there never was an agent. One thread.
  Result<rendezvous::AgentMessage> next_order(Duration deadline);
  // The newest generation that the agent asked to end after a step on which all ranks agree; 0: none. Any thread.
  std::int64_t yields() const;
  // Whether next_order() would return an order at once.
  bool has_order() const;

  // Waits until everything queued has left, also held-back progress. False: not within `deadline`, or the link has
  // ended. True without an agent. To be called before an exit.
  bool flush(Duration deadline);

 private:
  class Impl;
  explicit AgentLink(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;  // null: no agent
};

}  // namespace lockstep::trainer::elastic
