// A wish to end, from whoever may say so: SIGTERM, or the agent. The training loop looks at it between micro-batches,
// and agrees with the other ranks on the step after which all stop.
#pragma once

#include <atomic>

namespace lockstep::trainer::elastic {

enum class StopReason {
  kNone,
  kSignal,     // SIGTERM: finish the step, write a checkpoint, exit with kExitStopped
  kAgent,      // the agent's stop message: the same
  kAgentLost,  // the link to the agent ended: nobody looks after this process, so abort and exit with kExitTemporary
};

const char* stop_reason_text(StopReason reason);  // "SIGTERM", "stop from the agent", ...

class StopToken {
 public:
  // Any thread. The first reason stays, but kAgentLost replaces every other.
  void request(StopReason reason);
  StopReason reason() const;
  bool requested() const { return reason() != StopReason::kNone; }

 private:
  std::atomic<int> reason_{0};
};

// From now on the first SIGTERM requests `token` with kSignal; a second one ends the process at once. The token must
// outlive the process's last SIGTERM: give it static storage or keep it until exit. Call once, before threads start.
void stop_on_sigterm(StopToken& token);

}  // namespace lockstep::trainer::elastic
