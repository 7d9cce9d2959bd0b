// A wish to end, from whoever may say so: SIGTERM, or the agent. The training loop looks at it between micro-batches,
// and agrees with the other ranks on the step after which all stop, or this one leaves.
#pragma once

#include <atomic>
#include <thread>

#include "trainer/comm/fd.h"

namespace lockstep::trainer::elastic {

enum class StopReason {
  kNone,
  kSignal,     // SIGTERM: finish the step, see that its state is kept, exit with kExitStopped; peers may go on
  kAgent,      // the agent's stop message: all ranks finish the step, write a checkpoint, exit with kExitStopped
  kAgentLost,  // the link to the agent ended: nobody looks after this process, so abort and exit with kExitTemporary
};

const char* stop_reason_text(StopReason reason);  // "SIGTERM", "stop from the agent", ...

class StopToken {
 public:
  // Any thread. A graver reason, further down the list, replaces one before it.
  void request(StopReason reason);
  StopReason reason() const;
  bool requested() const { return reason() != StopReason::kNone; }

 private:
  std::atomic<int> reason_{0};
};

// Listens for SIGTERM on a thread of its own: the first requests `token` with kSignal, a second one ends the process at
// once. No handler is installed, because one would run on the stack of whatever thread computes, and the kernels of
// oneDNN point the stack register into the heap while they multiply: the system would write the signal's frame there.
// Make it before any other thread, on the thread that starts them: it blocks SIGTERM there, and they inherit that.
// SIGTERM stays blocked when the listener ends. The token must outlive it.
class SigtermListener {
 public:
  explicit SigtermListener(StopToken& token);
  ~SigtermListener();
  SigtermListener(const SigtermListener&) = delete;
  SigtermListener& operator=(const SigtermListener&) = delete;

 private:
  void run();

  StopToken& token_;
  comm::UniqueFd signals_, wake_;
  std::thread thread_;
};

}  // namespace lockstep::trainer::elastic
