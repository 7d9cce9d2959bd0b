#include "trainer/elastic/stop.h"

#include <signal.h>

namespace lockstep::trainer::elastic {
namespace {

static_assert(std::atomic<int>::is_always_lock_free, "a signal handler stores it");
std::atomic<StopToken*> signal_token{nullptr};

extern "C" void lockstep_trainer_sigterm(int) {
  if (StopToken* token = signal_token.load()) token->request(StopReason::kSignal);
}

}  // namespace

const char* stop_reason_text(StopReason reason) {
  switch (reason) {
    case StopReason::kNone:
      return "no stop";
    case StopReason::kSignal:
      return "SIGTERM";
    case StopReason::kAgent:
      return "stop from the agent";
    case StopReason::kAgentLost:
      return "the agent is gone";
  }
  return "unknown";
}

void StopToken::request(StopReason reason) {
  const int wanted = static_cast<int>(reason);
  if (reason == StopReason::kAgentLost) {
    reason_.store(wanted);
    return;
  }
  int none = static_cast<int>(StopReason::kNone);
  reason_.compare_exchange_strong(none, wanted);
}

StopReason StopToken::reason() const {
  return StopReason{reason_.load()};
}

void stop_on_sigterm(StopToken& token) {
  signal_token.store(&token);
  struct sigaction action {};
  action.sa_handler = lockstep_trainer_sigterm;
  // The second signal finds the default again. System calls go on: the loop looks at the token by itself.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace lockstep::trainer::elastic
