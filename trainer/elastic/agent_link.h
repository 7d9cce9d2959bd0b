// The process's end of the link to its agent (operator/rendezvous/worker_contract.h): tells how training stands, and
// hears the wish to stop and the orders of a regroup. Never blocks training: an own thread does the reading and
// writing. Without an agent every call does nothing.
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
  // with kAgentLost when the link ends or speaks nonsense; it must outlive the link. kInvalid: `fd` is not a socket.
  static Result<std::unique_ptr<AgentLink>> open(int fd, StopToken& stop);
  // Gives what is queued at most 1 s to leave, then closes. Joins the thread.
  ~AgentLink();

  // Whether there is an agent.
  bool present() const { return impl_ != nullptr; }

  // Any thread, at once. Messages leave in order; of progress only the newest is kept and at most 4 a second are sent.
  void up(bool regroups, const rendezvous::EntryTimes& entry = {});
  void identity(const std::string& line);
  void progress(const rendezvous::Progress& progress);
  void checkpoint(const rendezvous::CheckpointReport& report);
  void failure(const rendezvous::FailureReport& report);
  void broken(const rendezvous::BrokenReport& report);
  void holding(const rendezvous::Holding& holding);

  // From now on the agent hears four times a second what `look` gives, from the link's own thread: also while whoever
  // trains is stuck. It must not block, and what it looks at must outlive the link. Set once.
  void watch(std::function<rendezvous::Activity()> look);

  // Orders: a regroup (kRegroup) with a higher (term, generation) replaces every older order; a join (kJoin) counts
  // once, and only for the newest regroup. `interrupt` is called on the link's thread each time that a regroup was
  // taken, after next_order() can see it and before anything that the agent says later; it must not block. Set once.
  void on_regroup(std::function<void()> interrupt);
  // Waits for the newest order that was not given out yet. kDeadlineExceeded: there is none; kUnavailable: the link is
  // gone, or there never was an agent. One thread.
  Result<rendezvous::AgentMessage> next_order(Duration deadline);
  // The newest generation that the agent asked to end after a step on which all ranks agree; 0: none. Any thread.
  std::int64_t yields() const;
  // Whether next_order() would return an order at once.
  bool has_order() const;

  // Waits until everything queued has left, also held-back progress. False: not within `deadline`, or the link is gone.
  // True without an agent. Before an exit.
  bool flush(Duration deadline);

 private:
  class Impl;
  explicit AgentLink(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;  // null: no agent
};

}  // namespace lockstep::trainer::elastic
