// Part of the agent's machine (MemberState): whether the agent is to leave, with which exit code, and when.
//
// Invariants:
//   * the exit code is decided once; a failure takes the place of success, and nothing that of a failure;
//   * the agent leaves once, and only after that decision.
#pragma once

#include <optional>

#include "operator/base/clock.h"

namespace lockstep::rendezvous {

class MemberDeparture {
 public:
  // Whether a coordinator knows all that this pod has to report.
  struct Telling {
    bool welcomed = false;           // a coordinator listens
    bool acknowledged = false;       // it has acknowledged each exit
    bool checkpoint_unsaid = false;  // the newest checkpoint may have reached no coordinator
  };

  bool decided() const { return code_.has_value(); }
  void decide(int code);
  // A coordinator has refused this pod for good: the agent looks for no other.
  void be_unwanted() { unwanted_ = true; }
  // A coordinator does not expect this pod. It may have just begun to lead and not know the job yet.
  void be_unexpected(MonotonicTime now);

  // No process is left: how long the agent stays to report to a coordinator that listens, or to find one.
  void begin(MonotonicTime now, Duration listening, Duration finding);
  // A coordinator listens from `now` on.
  void listen(MonotonicTime now, Duration listening) { leave_at_ = now + listening; }

  // No process is left: the exit code if the agent leaves now. Answered once.
  std::optional<int> leave(const Telling& telling, MonotonicTime now);
  // No process is left: the latest time to leave; never once it has left, or where it is not to.
  MonotonicTime latest(bool welcomed) const;

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  bool unwanted_ = false;
  std::optional<int> code_;
  MonotonicTime leave_at_{};  // latest time to leave, while a coordinator listens
  MonotonicTime leave_by_{};  // the same while none does
  bool left_ = false;
};

}  // namespace lockstep::rendezvous
