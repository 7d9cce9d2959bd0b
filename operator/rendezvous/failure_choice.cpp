#include "operator/rendezvous/failure_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <tuple>

#include "operator/api/cause.h"

namespace lockstep::rendezvous {

Blame blame_of(const Exit& exit, Kind kind) {
  if (exit.reason == Exit::Reason::kOrdered) return Blame::kNone;
  if (exit.reason == Exit::Reason::kTerminated) return Blame::kOwn;
  if (exit.signal == 0 && exit.code == 0) return Blame::kNone;
  if (exit.problem != api::Cause::kNone || exit.signal != 0) return Blame::kOwn;
  if (exit.report) {
    return exit.report->kind == FailureReport::Class::kCommunication ? Blame::kCommunication : Blame::kOwn;
  }
  if (exit.code == kExitCommunication && kind == Kind::kLockstep) return Blame::kCommunication;
  return kind == Kind::kLockstep ? Blame::kOwn : Blame::kUnclear;
}

Duration gather_time(Blame most) {
  switch (most) {
    case Blame::kCommunication:
      return std::chrono::milliseconds(200);
    case Blame::kUnclear:
      return std::chrono::milliseconds(100);
    case Blame::kNone:
    case Blame::kOwn:
      break;
  }
  return Duration::zero();
}

const Exit* first_failing(const std::vector<Exit>& exits, Kind kind) {
  const Exit* first = nullptr;
  const auto key = [kind](const Exit& exit) {
    return std::tuple(-static_cast<int>(blame_of(exit, kind)), exit.end_ms, exit.rank);
  };
  for (const Exit& exit : exits) {
    if (blame_of(exit, kind) == Blame::kNone) continue;
    if (first == nullptr || key(exit) < key(*first)) first = &exit;
  }
  return first;
}

Weighed weigh(const std::map<int, Exit>& exits, bool links_broke, Kind kind,
              const std::function<bool(int rank)>& leaves) {
  Weighed weighed;
  for (const auto& [rank, exit] : exits) {
    if (leaves(rank) && (exit.code != 0 || exit.reason != Exit::Reason::kOwn)) {
      weighed.left = true;
      continue;
    }
    weighed.exits.push_back(exit);
    weighed.most = std::max(weighed.most, blame_of(exit, kind));
    weighed.ordered = weighed.ordered || exit.reason == Exit::Reason::kOrdered;
  }
  if (links_broke) weighed.most = std::max(weighed.most, Blame::kCommunication);
  return weighed;
}

std::string signal_name(int signal) {
  const char* abbreviation = sigabbrev_np(signal);
  return abbreviation != nullptr ? fmt::format("SIG{}", abbreviation) : fmt::format("signal {}", signal);
}

Failure failure_of(const Exit& exit, int slot) {
  Failure failure;
  failure.generation = exit.generation;
  failure.rank = exit.rank;
  failure.slot = slot;
  failure.exit_code = exit.code;
  failure.signal = exit.signal;
  failure.time = WallTime(std::chrono::milliseconds(exit.end_ms));
  if (exit.problem != api::Cause::kNone) {
    failure.cause = exit.problem;
    failure.message = exit.message;
  } else if (exit.reason == Exit::Reason::kTerminated) {
    failure.cause = api::Cause::kStopped;
    failure.message = fmt::format("the pod of slot {} was told to stop, which ended rank {}", slot, exit.rank);
  } else if (exit.signal != 0) {
    failure.cause = api::Cause::kProcessSignal;
    failure.message = fmt::format("rank {} was ended by {}", exit.rank, signal_name(exit.signal));
  } else {
    failure.cause = exit.code == kExitStopped ? api::Cause::kStopped : api::Cause::kProcessExit;
    failure.message = fmt::format("rank {} exited with code {}", exit.rank, exit.code);
  }
  if (exit.report && !exit.report->message.empty()) failure.message += ": " + exit.report->message;
  if (!exit.stderr_tail.empty()) failure.message += "\n" + exit.stderr_tail.substr(0, kMaxStderrTail);
  return failure;
}

}  // namespace lockstep::rendezvous
