// The agent's side of the protocol as a pure state machine: events and the time go in, actions come out. It opens no
// socket, starts no process, reads no clock and has no thread; trainer/agent carries the actions out.
//
// What it holds to (README.md has the whole story):
//   * a PROPOSE or GO at or below what was promised, or of a number already used, is refused;
//   * READY is said only when this pod can commit nothing more of an older generation. Its processes are gone, or each
//     of them has said (Holding) that it ended its communicator, or has ended and left nothing behind;
//   * GO is followed only for the very proposal that READY was said for, and once;
//   * processes that end before their first generation are in it: READY is said for them, and GO answered with EXIT;
//   * without a coordinator training goes on, for at most `orphan_after`.
//
// It consists of parts, each of which keeps invariants of its own:
//   member_contact.h    the connection to a coordinator, and when a heartbeat is due
//   member_proposal.h   promises, and the proposal under way
//   member_processes.h  the processes, and their newest GO
//   member_news.h       their reports, for heartbeats
//   member_departure.h  whether and when the agent leaves
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/member_actions.h"
#include "operator/rendezvous/member_contact.h"
#include "operator/rendezvous/member_departure.h"
#include "operator/rendezvous/member_news.h"
#include "operator/rendezvous/member_processes.h"
#include "operator/rendezvous/member_proposal.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

struct MemberOptions {
  std::string name_space, pod_name, pod_uid;
  int slot = 0;
  std::int64_t incarnation = 0;
  std::string session;
  Duration kill_grace = kKillGrace;
  Duration abort_grace = kAbortGrace;
  Duration orphan_after = kOrphanAfter;
  Duration hold_within = kHoldWithin;  // a process that does not answer a regroup for so long is ended
  Duration flush_exits_within = std::chrono::seconds(1);  // for EXITs to be acknowledged before the agent leaves
  // Time to find a coordinator and report a checkpoint that no coordinator knows. A pod's own grace ends it before.
  Duration tell_checkpoint_within = kReconnectWithin;
};

// One owner, one thread. The times of two calls may be a little out of order. An agent looks at its clock once for
// several things, and what a process says meanwhile has a time of its own.
class MemberState {
 public:
  MemberState(MemberOptions options, MonotonicTime now);

  void on_connected(MonotonicTime now);
  void on_disconnected(MonotonicTime now);
  void on_message(const CoordinatorToAgent& message, MonotonicTime now);
  void on_prepared(const GenerationId& id, const Prepared& prepared, MonotonicTime now);
  // `problem`: the first address that could not be reached, and why; empty: all were.
  void on_dialled(std::int64_t generation, const std::string& problem);
  void on_started(int rank, MonotonicTime now);
  void on_worker_message(int rank, const WorkerMessage& message, MonotonicTime now);
  void on_exit(const ProcessEnd& end, MonotonicTime now);
  // The state of a process, a letter as in /proc; before an on_tick() that says a heartbeat.
  void on_process_state(int rank, char state);
  // No child of the agent is left, direct or adopted.
  void on_no_process_left(MonotonicTime now);
  // The agent itself was told to end (SIGTERM): processes get `grace`, then it leaves with `code`.
  void on_terminate(int code, Duration grace, MonotonicTime now);
  void on_tick(MonotonicTime now);

  // When on_tick() is next of use.
  MonotonicTime deadline() const;
  // Whether on_tick() would say a heartbeat.
  bool heartbeat_due(MonotonicTime now) const { return contact_.heartbeat_due(now); }
  // What to do, in order; empty afterwards.
  std::vector<MemberAction> take_actions() { return std::exchange(actions_, {}); }

  MemberPhase phase() const;
  std::int64_t generation() const { return processes_.generation(); }
  const GenerationId& promised() const { return proposal_.promised(); }
  bool welcomed() const { return contact_.welcomed(); }
  bool leaving() const { return departure_.decided(); }
  // Messages of an unknown type, or refused because they were too old.
  std::int64_t ignored() const { return ignored_; }

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  void on(const Welcome& welcome, MonotonicTime now);
  void on(const Refused& refused, MonotonicTime now);
  void on(const Propose& propose, MonotonicTime now);
  void on(const Go& go, MonotonicTime now);
  void on(const Warm& warm, MonotonicTime now);
  void on(const Echo& echo, MonotonicTime now);
  void on(const Ack& ack, MonotonicTime now);
  void on(const Halt& halt, MonotonicTime now);
  void on(const Yield& yield, MonotonicTime now);
  void on(const Abort& abort, MonotonicTime now);
  void on(const Stop& stop, MonotonicTime now);
  void on(const Done& done, MonotonicTime now);
  void on(const Unknown& unknown, MonotonicTime now);

  // A message for a coordinator, or only where one listens.
  void send(AgentToCoordinator message);
  void tell(AgentToCoordinator message);
  void send_heartbeat(MonotonicTime now);
  void tell_up();
  void end_processes(Exit::Reason reason, Duration grace, bool ask, MonotonicTime now);
  void drop_proposal();
  void prepare_warm();
  void prepare_ready();
  Ready ready_with(const Prepared& sockets) const;
  void say_ready(const Ready& ready, bool existing);
  void start(const Go& go, const Prepared& sockets, MonotonicTime now);
  void hold(int rank, const Holding& holding);
  void ready_to_go_on();
  void adopt(const Go& go);
  void take_over(const Go& go);
  void leave(int code, MonotonicTime now);
  Duration wait_for_acks() const;
  void leave_when_told(MonotonicTime now);
  void leave_if_done(MonotonicTime now);

  MemberOptions options_;
  std::vector<MemberAction> actions_;
  MemberContact contact_;
  MemberProposal proposal_;
  MemberProcesses processes_;
  MemberNews news_;
  MemberDeparture departure_;
  std::optional<Warm> warming_;  // to be started without a generation, once nothing is left of the one before
  std::int64_t ignored_ = 0;
};

}  // namespace lockstep::rendezvous
