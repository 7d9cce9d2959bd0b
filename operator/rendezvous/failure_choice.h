// Which of the exits of a generation is the one to blame. Pure; the coordinator's state machine calls it after each
// EXIT and when the gathering time is over.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

// How much an exit says about whose fault it is.
enum class Blame {
  kNone,           // code 0, or ended by the coordinator's order
  kCommunication,  // it saw a peer go away: exit 80, or it reported so
  kUnclear,        // a foreign program's plain exit code: its own error, or a peer's death seen from there
  kOwn,            // a signal, an own error, a command that is not there, a pod that was told to stop
};
Blame blame_of(const Exit& exit, Kind kind);

// It ended by itself, and well.
inline bool succeeded(const Exit& exit) {
  return exit.code == 0 && exit.reason == Exit::Reason::kOwn;
}

// How long to wait for a better explanation when `most` is the strongest blame known.
Duration gather_time(Blame most);

// The exit to name: the strongest blame, then the smallest end_ms, then the smallest rank. Null when none has any.
const Exit* first_failing(const std::vector<Exit>& exits, Kind kind);

// What the exits of a generation say together.
struct Weighed {
  std::vector<Exit> exits;    // that count: not those of members that were to leave
  Blame most = Blame::kNone;  // the strongest, of broken links as well
  bool ordered = false;       // the coordinator's order ended some process
  bool left = false;          // a member that was to leave has left
};
// `links_broke`: some rank reported it and waits. `leaves`: the member of that rank is to leave.
Weighed weigh(const std::map<int, Exit>& exits, bool links_broke, Kind kind,
              const std::function<bool(int rank)>& leaves);

// The failure that `exit` stands for, with everything but detect_ms and step.
Failure failure_of(const Exit& exit, int slot);

// "SIGKILL" for 9; "signal 42" for one without a name.
std::string signal_name(int signal);

}  // namespace lockstep::rendezvous
