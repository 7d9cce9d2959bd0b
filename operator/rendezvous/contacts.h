// The coordinator's contacts with the members of one job. A slot has its expected member, the connection of its agent,
// what the agent last said of itself, and how long it may be silent. Pure; part of CoordinatorState, which decides what
// follows from a silence.
//
// A member is silent from the last sign of life of its agent. Silence proves nothing while this process was held up,
// while a token with the member's name is under review, and soon after a takeover.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/coordinator_actions.h"
#include "operator/rendezvous/coordinator_timing.h"
#include "operator/rendezvous/failure_detector.h"
#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/roster.h"
#include "operator/rendezvous/slot_map.h"

namespace lockstep::rendezvous {

// Whether a member that is to join reaches the ranks that run.
struct Reach {
  std::int64_t generation = 0;  // whose addresses the newest ECHO had
  MonotonicTime asked_at{};
  bool answered = false;
  std::string problem;  // of the newest answer; empty: it reaches all
  int failures = 0;     // consecutive answers with a problem
};

// What an agent was told on its present connection.
struct Told {
  bool to_leave = false;                   // STOP or DONE
  std::int64_t halted = 0;                 // HALT up to this generation
  std::int64_t yields = 0;                 // YIELD of this generation
  std::optional<MonotonicTime> warmed_at;  // WARM
  std::optional<Reach> reach;              // ECHO
};

// An expected pod and what its agent last said.
struct Member {
  // What a heartbeat touches comes first.
  SessionId session = 0;                  // 0: it is not connected
  MonotonicTime heard{};                  // last sign of life, or when the connection broke
  MonotonicTime activity_at{};            // when it last said what its ranks are doing
  MonotonicTime review_at{};              // when a token with its name was last under review
  ArrivalTimes arrivals;                  // of this connection's heartbeats
  Duration heartbeats = kHeartbeatEvery;  // the interval that WELCOME told it
  std::int64_t generation = 0;
  std::int64_t step = -1;  // last progress of the generation in force
  MemberPhase phase = MemberPhase::kIdle;
  bool regroups = false;  // its processes live, and keep what they hold
  ExpectedMember expected;
  std::string agent;  // Hello::session; "" before the first HELLO
  std::int64_t life = 0;
  Told told;
  enum class Start { kAwaited, kForeign, kFailed } start = Start::kAwaited;  // of processes before any generation
  std::vector<IdentityRun> identities;         // of its processes; empty: nothing is known
  std::map<int, std::int64_t> to_acknowledge;  // exits heard on this connection, by rank: their generation

  Place place() const { return {expected.slot, expected.incarnation}; }
  bool is_in(const Roster& roster) const { return roster.has(expected.slot, expected.incarnation); }
};

class Contacts {
 public:
  Contacts(const CoordinatorTiming& timing, MonotonicTime now);

  // ---- events ----

  // An event happens at `now`. True when none happened for so long that this process was held up. It has not read what
  // arrived meanwhile, so the silence of every member counts from `now`.
  bool observe(MonotonicTime now);
  // For how long nothing happened before the last event that found this process held up; zero when none did since the
  // last call.
  Duration take_held_up() { return std::exchange(held_up_, Duration::zero()); }
  MonotonicTime last_event() const { return last_event_; }

  struct Change {
    std::vector<int> fresh;                       // slots whose pod is another one, or was not expected
    std::vector<std::pair<int, SessionId>> left;  // connections of pods that are not expected any longer, by slot
  };
  // From now on these members are expected. A member whose pod is the same keeps its connection.
  Change expect(const std::vector<ExpectedMember>& expected, MonotonicTime now);
  // Why the pod that says `hello` is not the one that its slot expects; empty when it is.
  std::optional<Refused> refusal(const Hello& hello) const;
  // Takes the connection of `hello` for its member's, which is expected. Returns the connection that it replaces; 0:
  // none.
  SessionId connect(SessionId session, const Hello& hello, MonotonicTime now);
  // A connection has ended. False when it is no member's.
  bool disconnect(SessionId session, MonotonicTime now);
  // Ends the connections on which nothing arrived for the longest time allowed, and returns them.
  std::vector<SessionId> disconnect_silent(MonotonicTime now);
  // A member that was there already has become able to join a generation.
  void note_joined(MonotonicTime now) { joined_at_ = now; }
  // Keeps the last few reasons why a HELLO was turned away. False when that reason was known.
  bool note_turned_away(const std::string& why);
  const std::vector<std::string>& turned_away() const { return turned_away_; }

  // ---- members ----

  SlotMap<Member>& members() { return members_; }  // by slot, as planned
  const SlotMap<Member>& members() const { return members_; }
  Member& at(int slot) { return members_.at(slot); }  // of a slot that is expected
  const Member& at(int slot) const { return members_.at(slot); }
  // Null when no member is expected there.
  const Member* find(int slot) const;
  // The member whose connection that is; null when it is no member's.
  Member* by_session(SessionId session);
  std::size_t connected() const { return slot_of_session_.size(); }
  // Every slot of `roster` is to be the pod that it was.
  bool still_expects(const Roster& roster) const;
  bool still_expects(const Place& place) const;
  // Whether the plan says that the member of that slot is to leave; of any slot in `roster`.
  bool leaves(int slot) const;
  bool somebody_leaves(const Roster& roster) const;
  // Every member of `roster` keeps its processes from one generation to the next.
  bool all_regroup(const Roster& roster) const;
  // Every member of `roster` that is expected has said HELLO to this coordinator.
  bool all_came(const Roster& roster) const;
  // "pod a-0 (node n1)"
  std::string pod_in_words(int slot) const;
  // "slot 0 (pod a-0, node n1)"
  std::string slot_in_words(int slot) const;

  // ---- silence ----

  // How long that member may be silent before it counts as lost.
  Duration silence_of(const Member& member) const;
  bool silent(const Member& member, MonotonicTime now) const { return now - member.heard > silence_of(member); }
  bool under_review(const Member& member, MonotonicTime now) const;
  // No delay of one heartbeat explains a longer silence.
  Duration two_heartbeats() const;
  // Its word at `now` ends a silence of every member, or of this one.
  bool heard_again(const Member& member, MonotonicTime now) const {
    return alone_since_ || now - member.heard > two_heartbeats();
  }
  // The newest sign of life of any member of `gang`.
  MonotonicTime last_heard(const Roster& gang) const;
  enum class Silence {
    kOfSome,    // members that are silent may be lost
    kOfAll,     // no heartbeat arrives from any member of the gang: this process's own network may be the cause
    kOver,      // a heartbeat arrived after a silence of all; every member's silence was shortened or forgiven
    kForgiven,  // kOver, and the members need time to reconnect: no eviction until then
  };
  // Looks whether all members of `gang` are silent.
  Silence look(const Roster& gang, MonotonicTime now);
  // No member is lost before: they have time to come (back).
  void evict_from(MonotonicTime time) { evict_from_ = time; }
  bool may_evict(MonotonicTime now) const { return now >= evict_from_; }
  // Nobody has joined for so long, and all had time to come.
  bool stable(Duration within, MonotonicTime now) const { return now - joined_at_ >= within && may_evict(now); }

  // ---- acknowledgements ----

  // An EXIT was heard from `member`.
  void note_exit(Member& member, const Exit& exit);
  // The acknowledgements that are owed to members that are connected, by slot.
  std::vector<SendToMember> take_acknowledgements();
  bool owes_acknowledgements() const { return !unacknowledged_.empty(); }

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  bool cut_off(const Roster& gang, MonotonicTime now) const;
  Silence hear_again(const Roster& gang, Duration quiet, MonotonicTime now);

  const CoordinatorTiming timing_;
  SlotMap<Member> members_;
  std::unordered_map<SessionId, int> slot_of_session_;
  std::vector<int> unacknowledged_;  // slots with exits to acknowledge
  std::vector<std::string> turned_away_;
  MonotonicTime joined_at_{};  // when a new agent last connected, or a member became able to join
  // Of any size that the job had: a connection keeps the interval that it was welcomed with.
  Duration slowest_heartbeats_ = kHeartbeatEvery;
  MonotonicTime evict_from_{};                // after a takeover, or a silence of all, members have time to come back
  std::optional<MonotonicTime> alone_since_;  // since when no member of the generation sends a heartbeat
  MonotonicTime last_event_{};
  Duration held_up_{};
};

}  // namespace lockstep::rendezvous
