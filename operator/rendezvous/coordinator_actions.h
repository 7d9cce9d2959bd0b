// What the coordinator's state machine asks for, and the time that each event brings.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

#include "operator/base/clock.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

using SessionId = std::uint64_t;  // of a connection; 0 is none, never used twice

struct SendToMember {
  SessionId session = 0;
  CoordinatorToAgent message;
};
// After what was sent to it has been written.
struct CloseSession {
  SessionId session = 0;
};
struct LoadRecord {};  // answered by on_loaded()
struct WriteRecord {   // answered by on_written()
  std::string version;
  Record next;
};
using CoordinatorAction = std::variant<SendToMember, CloseSession, LoadRecord, WriteRecord>;

struct Now {
  MonotonicTime time{};
  WallTime wall{};
  bool leads = true;  // this process holds the Lease at this moment
};

inline std::int64_t milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace lockstep::rendezvous
