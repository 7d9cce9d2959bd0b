#include "trainer/elastic/stop.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "operator/base/thread.h"

namespace lockstep::trainer::elastic {
namespace {

sigset_t only_sigterm() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  return set;
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
  int before = reason_.load();
  while (before < wanted && !reason_.compare_exchange_weak(before, wanted)) continue;
}

StopReason StopToken::reason() const {
  return StopReason{reason_.load()};
}

SigtermListener::SigtermListener(StopToken& token) : token_(token) {
  const sigset_t sigterm = only_sigterm();
  signals_.reset(::signalfd(-1, &sigterm, SFD_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!signals_ || !wake_) return;  // no descriptors are left; then SIGTERM ends the process at once, rather than never
  thread_ = start_without_signals([this] { run(); });  // it reads SIGTERM from signals_
  ::pthread_sigmask(SIG_BLOCK, &sigterm, nullptr);
}

SigtermListener::~SigtermListener() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void SigtermListener::run() {
  std::array<pollfd, 2> list{{{signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  bool again = false;
  while (true) {
    if (::poll(list.data(), list.size(), -1) < 0 && errno != EINTR) return;
    if (list[1].revents != 0) return;
    signalfd_siginfo info;
    if (list[0].revents == 0 || ::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info))
      continue;
    if (std::exchange(again, true)) {
      const sigset_t sigterm = only_sigterm();
      ::pthread_sigmask(SIG_UNBLOCK, &sigterm, nullptr);
      ::raise(SIGTERM);  // its action is the default one
    }
    token_.request(StopReason::kSignal);
  }
}

}  // namespace lockstep::trainer::elastic
