// Part of the agent's machine (MemberState): the processes of the pod, and the GO that they were last told.
//
// Invariants:
//   * the ranks are those of that GO; without one there are none;
//   * a process ends once; its exit stays until another process or another generation takes its place;
//   * all processes are up only together, and once in a generation;
//   * processes are being ended only while one may be alive;
//   * `life` grows with each start of all processes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/activity.h"
#include "operator/rendezvous/member_actions.h"
#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/worker_contract.h"

namespace lockstep::rendezvous {

// A process, or what is known of one that has ended.
struct MemberProcess {
  bool up = false;
  bool regroups = false;
  EntryTimes entry;
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

class MemberProcesses {
 public:
  // What the processes were last told: a generation, or that they are to wait for one.
  const std::optional<Go>& go() const { return go_; }
  std::int64_t generation() const { return go_ ? go_->id.generation : 0; }
  const std::map<int, MemberProcess>& by_rank() const { return ranks_; }
  // Where they listen.
  const Prepared& sockets() const { return sockets_; }
  std::int64_t life() const { return life_; }
  // A process, or one that it left behind, may be alive.
  bool alive() const { return alive_; }
  bool up() const { return up_; }
  // They wait for a generation: the running one continues without them, or none has formed yet.
  bool standby() const { return standby_; }
  // They wait and no generation has run: the first one reports their exits.
  bool before_first() const { return standby_ && first_; }
  bool ending() const { return ending_.has_value(); }

  bool has(int rank) const { return ranks_.count(rank) != 0; }
  bool all_exited() const;
  // How many have ended.
  int exited() const;
  // All exits have been acknowledged.
  bool acknowledged() const;
  // All live, and keep what they hold from one generation to the next.
  bool all_regroup() const;
  // Whether they can stay for a generation with so many ranks here: all living ones regroup, and dead ones have left no
  // child.
  bool can_stay(int ranks) const;
  // One of them has failed, or all have ended, before any generation. The first generation reports these exits, so that
  // policy sees them.
  bool ended_before_first() const;
  // All of them ended by themselves, with 0.
  bool succeeded() const;
  // The code of the first that failed; 1 where none did.
  int failure() const;
  // Of the living processes; empty: none has sent its line.
  std::vector<IdentityRun> identities() const;
  // What they do, for a heartbeat; empty: none runs.
  std::vector<RankActivity> activities(MonotonicTime now) const;
  // The longest of the entries into this generation.
  EntryTimes entry() const;

  // ---- from one generation to the next ----

  // Where they will listen.
  void listen_at(const Prepared& sockets) { sockets_ = sockets; }
  // All are started for this GO.
  void start(const Go& go);
  // They wait for a generation; `first`: none has been yet.
  void wait(bool first);
  // All of them, dead ones too, have the ranks of this GO from now on.
  void adopt(const Go& go);
  // Replaces dead processes; their local ranks, in order.
  std::vector<int> replace_exited();

  // ---- what becomes of them ----

  // A process of a foreign program has started. True when with it all are up.
  bool started(int rank);
  // A message of the living process of `rank`. True when with it all are up.
  bool hear(int rank, const WorkerMessage& message, MonotonicTime now);
  // Its identity line. False: it has said the same before.
  bool identify(int rank, const std::string& line);
  void note_state(int rank, char state);
  // A process has ended. None: it is not one of them, or has ended before.
  std::optional<Exit> exit(const ProcessEnd& end);
  void acknowledge(int rank);
  // A new coordinator has acknowledged nothing yet.
  void forget_acknowledgements();
  // No process is left.
  void vanish();

  // ---- how they are ended ----

  // The process of `rank` hangs, as `message` says, and is killed at `kill_at`. False: the process is not there or is
  // ending already.
  bool abort(int rank, const std::string& message, MonotonicTime kill_at);
  // All processes are told to end, and are killed at `kill_at`. False: they had been told before, and are killed at the
  // earlier of the two times.
  bool end(Exit::Reason reason, MonotonicTime kill_at);
  // Those of aborted processes that are to be killed now. Answered once.
  std::vector<int> overdue(MonotonicTime now);
  // Whether all that is left is to be killed now; again after a while.
  bool kill_due(MonotonicTime now);
  // When overdue() and kill_due() are next of use.
  MonotonicTime next_kill() const;

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  struct Ending {
    MonotonicTime kill_at{};
    Exit::Reason reason = Exit::Reason::kOrdered;
  };
  MemberProcess* find(int rank);
  bool become_up();

  std::optional<Go> go_;
  std::map<int, MemberProcess> ranks_;
  Prepared sockets_;
  std::int64_t life_ = 0;
  bool alive_ = false, up_ = false, standby_ = false, first_ = false;
  std::optional<Ending> ending_;
};

}  // namespace lockstep::rendezvous
