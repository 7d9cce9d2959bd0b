// A request to end, by SIGTERM or by the agent. The training loop checks it between micro-batches. The ranks agree on
// the step after which all stop, or this one leaves.
#pragma once

#include <atomic>
#include <thread>

#include "operator/base/unique_fd.h"

namespace lockstep::trainer::elastic {

enum class StopReason {
  kNone,
  kSignal,     // SIGTERM: finish the step, keep its state, exit with kExitStopped; peers may continue
  kAgent,      // the agent's stop message: all ranks finish the step, write a checkpoint, exit with kExitStopped
  kAgentLost,  // the link to the agent ended and nothing supervises this process: abort, exit with kExitTemporary
};

const char* stop_reason_text(StopReason reason);  // "SIGTERM", "stop from the agent", ...

class StopToken {
 public:
  // Any thread. A later reason of the list replaces an earlier one, never the reverse.
  void request(StopReason reason);
  StopReason reason() const;
  bool requested() const { return reason() != StopReason::kNone; }

 private:
  std::atomic<int> reason_{0};
};

// A thread that waits for SIGTERM: the first requests `token` with kSignal, a second one ends the process at once. It
// installs no handler, because a handler runs on the stack of the interrupted thread. The kernels of oneDNN point the
// stack register into the heap while they multiply, and the kernel would write the signal's frame there. Create it
// before any other thread, on the thread that starts them: it blocks SIGTERM there, and they inherit that. SIGTERM
// stays blocked when the listener ends. The token must outlive it.
class SigtermListener {
 public:
  explicit SigtermListener(StopToken& token);
  ~SigtermListener();
  SigtermListener(const SigtermListener&) = delete;
  SigtermListener& operator=(const SigtermListener&) = delete;

 private:
  void run();

  StopToken& token_;
  UniqueFd signals_, wake_;
  std::thread thread_;
};

}  // namespace lockstep::trainer::elastic
