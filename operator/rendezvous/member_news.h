// Part of the agent's machine (MemberState): the reports of its processes that heartbeats carry to the coordinator.
//
// Invariants:
//   * progress is that of the lowest rank that has reported any in this generation;
//   * the newest checkpoint never becomes an older one;
//   * nothing is unsaid after a heartbeat. A checkpoint can become unsaid again when the connection breaks, because
//     only the ACK of a later message shows that a heartbeat has arrived.
#pragma once

#include <optional>
#include <utility>

#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/worker_contract.h"

namespace lockstep::rendezvous {

class MemberNews {
 public:
  // The report of the process of `rank`.
  void take(int rank, const WorkerMessage& message);
  // A process has another identity line, or this coordinator knows none.
  void identity_is_new() { identity_unsaid_ = true; }
  // Another generation begins.
  void forget_progress() { progress_.reset(); }
  // The connection broke; `awaited`: an answer that would have shown what has arrived.
  void lose_connection(bool awaited) { checkpoint_unsaid_ = checkpoint_ && awaited; }

  // Whether progress or a checkpoint has changed since the last heartbeat.
  bool unsaid() const { return unsaid_; }
  // Whether the newest checkpoint may have reached no coordinator.
  bool checkpoint_unsaid() const { return checkpoint_unsaid_; }
  bool identity_unsaid() const { return identity_unsaid_; }
  bool has_checkpoint() const { return checkpoint_.has_value(); }

  // Adds progress and checkpoint to a heartbeat that goes out.
  void say(Heartbeat& heartbeat);

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  std::optional<std::pair<int, Progress>> progress_;  // with the rank that said it
  std::optional<CheckpointReport> checkpoint_;
  bool unsaid_ = false, checkpoint_unsaid_ = false, identity_unsaid_ = false;
};

}  // namespace lockstep::rendezvous
