// The agent's side of the protocol as a pure state machine: events and the time go in, actions come out. It opens no
// socket, starts no process, reads no clock and has no thread; trainer/agent carries the actions out.
//
// What it holds to (README.md has the whole story):
//   * a PROPOSE or GO at or below what was promised, or of a number already used, is refused;
//   * READY is said only when nothing of an older generation can be committed on this pod any more: its processes are
//     gone, or each of them has said (Holding) that it ended its communicator or has ended and left nothing behind;
//   * GO is followed only for the very proposal that READY was said for, and once;
//   * processes that end before their first generation are in it: READY is said for them, and GO answered with EXIT;
//   * without a coordinator training goes on, for at most `orphan_after`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

// ---- what the machine asks for ----

struct SendToCoordinator {
  AgentToCoordinator message;  // the token of a HELLO is filled in by the sender
};
// Bind as many sockets as `propose` has ranks, and choose a port; answered by on_prepared().
struct PrepareSockets {
  Propose propose;
};
// Close what PrepareSockets made: the proposal is void.
struct DropSockets {};
// Start the processes; answered by on_started() or on_exit() for each rank. They are alive until on_no_process_left().
struct StartProcesses {
  Go go;
  std::vector<int> only;  // local ranks, in order: the others go on. Empty: all
};
// AgentMessage::kRegroup to every process that is there; answered by a WorkerMessage::holding of each.
struct AskHoldings {
  Epoch epoch;
};
// AgentMessage::kJoin to every process: they go on in the generation of `go`.
struct ContinueProcesses {
  Go go;
};
// AgentMessage::kYield to every process, all of which can be regrouped: the generation is to end after a step on which
// its ranks agree.
struct AskYield {
  std::int64_t generation = 0;
};
// Try to reach each of these data addresses; answered by on_dialled(). A later one takes the place of an earlier one.
struct DialAddresses {
  std::int64_t generation = 0;
  Peers peers;
};
// The processes that are there, some of which may have ended, have the ranks from `first_rank` on from now on.
struct RenumberProcesses {
  int first_rank = 0;
};
// SIGTERM to every process group; `ask` also sends AgentMessage::kStop over the links.
struct EndProcesses {
  bool ask = false;
};
// SIGABRT to the processes of this rank, and SIGCONT, so that a stopped one can die of it.
struct AbortProcess {
  int rank = 0;
};
// SIGKILL to the processes of this rank.
struct KillProcess {
  int rank = 0;
};
// SIGKILL to everything that is left, adopted grandchildren as well.
struct KillProcesses {};
struct CloseConnection {
  std::string why;
};
// Leave with this exit code; no process is left.
struct ExitAgent {
  int code = 0;
};
using MemberAction = std::variant<SendToCoordinator, PrepareSockets, DropSockets, StartProcesses, AskHoldings,
                                  ContinueProcesses, AskYield, DialAddresses, RenumberProcesses, AbortProcess,
                                  KillProcess, EndProcesses, KillProcesses, CloseConnection, ExitAgent>;

// ---- what it is told ----

// What PrepareSockets came to.
struct Prepared {
  std::vector<std::string> addresses;
  std::string host;
  int master_port = 0;
  api::Cause problem = api::Cause::kNone;  // see Ready
  std::string message;
};

// How a process of the current generation ended.
struct ProcessEnd {
  int rank = 0;
  int code = 0;
  int signal = 0;
  std::int64_t end_ms = 0;
  std::string stderr_tail;
  api::Cause problem = api::Cause::kNone;  // see Exit
  std::string message;
  bool left_behind = false;  // something that it started may still be there
};

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
  // For a coordinator to be found that hears of a checkpoint of which none has heard. A pod's own grace ends it before.
  Duration tell_checkpoint_within = kFoundWithin;
};

// One owner, one thread. The times of two calls may be a little out of order: an agent looks at its clock once for
// several things, and what a process says meanwhile has a time of its own.
class MemberState {
 public:
  MemberState(MemberOptions options, MonotonicTime now);

  void on_connected(MonotonicTime now);
  void on_disconnected(MonotonicTime now);
  void on_message(const CoordinatorToAgent& message, MonotonicTime now);
  void on_prepared(const Epoch& epoch, const Prepared& prepared, MonotonicTime now);
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
  bool heartbeat_due(MonotonicTime now) const { return welcomed_ && now >= heartbeat_at_; }
  // What to do, in order; empty afterwards.
  std::vector<MemberAction> take_actions() { return std::exchange(actions_, {}); }

  MemberPhase phase() const;
  std::int64_t generation() const { return go_ ? go_->epoch.generation : 0; }
  const Epoch& promised() const { return promised_; }
  bool welcomed() const { return welcomed_; }
  bool leaving() const { return leave_with_.has_value(); }
  // Messages of an unknown type, or refused because they were too old.
  std::int64_t ignored() const { return ignored_; }

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  struct Rank {
    bool up = false;
    bool regroups = false;
    EntryTimes entry;
    std::optional<StateVersion> holding;  // said for the proposal under way
    std::optional<BrokenReport> broken;
    std::optional<Exit> exit;
    bool left_behind = false;  // by a process that has exited
    bool acknowledged = false;
    std::optional<FailureReport> report;
    std::string identity;  // its line; empty: it has said none
    char state = '?';
    std::optional<Activity> activity;
    MonotonicTime activity_at{};
    std::optional<std::string> hang;               // it is being aborted, for this reason
    MonotonicTime kill_at = MonotonicTime::max();  // once it is
  };
  struct Ending {
    MonotonicTime kill_at{};
    Exit::Reason reason = Exit::Reason::kOrdered;
  };

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

  void send(AgentToCoordinator message);
  void send_heartbeat(MonotonicTime now);
  std::vector<IdentityRun> identities() const;
  void end_processes(Exit::Reason reason, Duration grace, bool ask, MonotonicTime now);
  void drop_proposal();
  bool all_regroup() const;
  bool can_keep(const Propose& propose) const;
  void prepare_warm();
  bool ended_before_first() const;
  void prepare_ready();
  void start(const Go& go, MonotonicTime now);
  int to_start_anew() const;
  void note_holding(Rank& rank, const Holding& holding);
  void ready_to_go_on();
  void stop_keeping();
  void adopt(const Go& go);
  void take_over(const Go& go);
  void leave(int code, MonotonicTime now);
  bool acknowledged() const;  // all exits
  Duration wait_for_acks() const;
  void leave_when_told(MonotonicTime now);
  void leave_if_done(MonotonicTime now);
  void note_up();
  bool all_exited() const;
  Rank* find(int rank);

  MemberOptions options_;
  std::vector<MemberAction> actions_;

  bool connected_ = false, welcomed_ = false;
  std::int64_t term_ = 0;  // highest that welcomed us
  MonotonicTime alone_since_{};
  MonotonicTime heartbeat_at_{};
  Duration heartbeat_every_ = kHeartbeatEvery;  // as the coordinator wants it
  std::int64_t sequence_ = 0;

  Epoch promised_;
  std::optional<Propose> propose_;    // accepted, and not yet followed by its GO
  std::optional<Ready> ready_;        // said for propose_
  bool keeping_ = false;              // the processes stay, and answer (or have answered) propose_ themselves
  std::optional<Prepared> prepared_;  // while keeping_: for the processes that are to be started anew
  bool kept_ready_ = false;           // READY was said for processes that stay, whatever became of them since
  MonotonicTime hold_until_{};
  Prepared offered_;  // where the processes of go_ listen

  std::optional<Go> go_;         // what the processes were last told: a generation, or that they are to wait for one
  std::int64_t used_ = 0;        // highest generation that ever had its GO here
  std::optional<Warm> warming_;  // to be started without a generation, once nothing is left of the one before
  bool standby_ = false;         // the processes wait for a generation, which goes on without them or has yet to be
  bool first_ = false;           // while standby_: no generation runs, and how they end is told in the first
  std::map<int, Rank> ranks_;    // of go_
  bool alive_ = false;           // a process of go_, or one that it left behind, may be alive
  bool up_ = false;
  std::int64_t life_ = 0;
  std::optional<Ending> ending_;
  std::optional<std::pair<int, Progress>> progress_;  // with the rank that said it
  std::optional<CheckpointReport> checkpoint_;
  bool unsaid_ = false;             // progress_ or checkpoint_ has changed since the last heartbeat
  bool checkpoint_unsaid_ = false;  // perhaps no coordinator has heard of checkpoint_
  bool identity_unsaid_ = false;    // a process has said another line since, or this coordinator has heard of none

  bool unwanted_ = false;  // a coordinator has refused this pod for good
  std::optional<int> leave_with_;
  MonotonicTime leave_at_{};  // once no process is left: latest time to leave, while a coordinator listens
  MonotonicTime leave_by_{};  // the same while none does
  bool left_ = false;
  std::int64_t ignored_ = 0;
};

}  // namespace lockstep::rendezvous
