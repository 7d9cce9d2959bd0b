// How long the coordinator's state machine waits for what. Tests shorten it.
#pragma once

#include <chrono>

#include "operator/base/clock.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

struct CoordinatorTiming {
  Duration lost_after = std::chrono::seconds(1);  // a connection that broke and is not made again
  // A connection that stands without a word: between these, as the member's own heartbeats came so far
  // (failure_detector.h). A node whose cores are all taken is late, not dead.
  Duration silent_least = std::chrono::milliseconds(900);
  Duration silent_after = std::chrono::seconds(3);
  Duration ready_within = kReadyDeadline + kKillGrace;  // PROPOSE to READY
  Duration no_eviction_for = std::chrono::seconds(5);   // after take-over
  Duration reconnect_within = kReconnectWithin;         // after take-over, for agents to reconnect
  Duration orphan_after = kOrphanAfter;                 // as the agents have it
  Duration tick = kHeartbeatEvery;                      // on_tick() is called at least this often
  Duration late_by = std::chrono::milliseconds(300);    // a tick that much too late restarts the timers
  Duration store_retry = std::chrono::milliseconds(500);
  Duration checkpoint_every = std::chrono::seconds(10);  // least time between two writes for a checkpoint alone
  Duration yield_within = std::chrono::seconds(60);      // for ranks to end a step before others join
  Duration warm_after = std::chrono::milliseconds(500);  // a first step that takes longer is not waited for
  Duration echo_within = std::chrono::seconds(5);        // an agent that does not know ECHO never answers
  Duration warm_again = std::chrono::seconds(2);         // for a member to start its processes, or be told again
  Duration session_silence = std::chrono::seconds(10);   // a connection without a word is closed
  Duration abort_within = std::chrono::seconds(5);       // for the agent of a hung process to end it
};

}  // namespace lockstep::rendezvous
