// Part of the agent's machine (MemberState): its contact with the coordinators, one connection after the other.
//
// Invariants:
//   * only an agent that is connected is welcomed;
//   * a coordinator of a lower term than one that welcomed this agent does not welcome it;
//   * a heartbeat is due only while the agent is welcomed, and each has a higher number than the one before.
#pragma once

#include <cstdint>

#include "operator/base/clock.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

class MemberContact {
 public:
  // The agent has had no coordinator since `now`.
  explicit MemberContact(MonotonicTime now) : alone_since_(now), heartbeat_at_(now) {}

  bool welcomed() const { return welcomed_; }
  // The highest term that welcomed this agent.
  std::int64_t term() const { return term_; }

  // A connection begins. Until WELCOME the agent accepts only WELCOME and REFUSED.
  void connect();
  void disconnect(MonotonicTime now);
  // Whether the coordinator may send `message` in this state.
  bool hears(const CoordinatorToAgent& message) const;
  // False: the coordinator's term is over, and nothing has changed.
  bool welcome(const Welcome& welcome);

  bool heartbeat_due(MonotonicTime now) const { return welcomed_ && now >= heartbeat_at_; }
  // The next heartbeat is due at `now`, because the agent has news.
  void hasten(MonotonicTime now) { heartbeat_at_ = now; }
  // The number of the heartbeat that the agent sends at `now`.
  std::int64_t say_heartbeat(MonotonicTime now);
  // When the next heartbeat is due; never before a WELCOME.
  MonotonicTime next_heartbeat() const;
  // When this agent has been without a coordinator for `after`; never while one welcomes it.
  MonotonicTime orphaned_at(Duration after) const;

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  bool connected_ = false, welcomed_ = false;
  std::int64_t term_ = 0;
  MonotonicTime alone_since_;
  MonotonicTime heartbeat_at_;
  Duration heartbeat_every_ = kHeartbeatEvery;  // as the coordinator wants it
  std::int64_t sequence_ = 0;
};

}  // namespace lockstep::rendezvous
