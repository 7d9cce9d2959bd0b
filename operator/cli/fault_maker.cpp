#include "operator/cli/fault_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace lockstep::cli {

FaultMaker::FaultMaker(local::PodRuntime& runtime, std::function<Status()> restart, Clock& clock)
    : runtime_(runtime), restart_(std::move(restart)), clock_(clock) {}

FaultMaker::~FaultMaker() {
  for (const Frozen& one : frozen_) static_cast<void>(one.process.signal(SIGCONT));  // or it has ended
}

Result<std::string> FaultMaker::make(const Fault& fault) {
  if (fault.kind == FaultKind::kRestartCoordinator) {
    LOCKSTEP_CHECK_OK(restart_());
    return std::string("ended the operator with its coordinator and started another");
  }
  LOCKSTEP_TRY(local::RunningPod pod, runtime_.find_pod(fault.slot));
  const auto of_agent = [&](const char* what) {
    return fmt::format("{} slot {} (process {}, pod {})", what, fault.slot, pod.agent.pid(), pod.name);
  };
  switch (fault.kind) {
    case FaultKind::kKillPod:
      LOCKSTEP_CHECK_OK(pod.agent.signal(SIGKILL));
      return of_agent("killed the agent of");
    case FaultKind::kEndPod:
      LOCKSTEP_CHECK_OK(pod.agent.signal(SIGTERM));
      return of_agent("told to end the agent of");
    case FaultKind::kCutCoordinator: {
      LOCKSTEP_TRY(const std::string ends, pod.agent.cut_connection(fault.choice));
      return fmt::format("{}: {}", of_agent("cut the coordinator's connection to"), ends);
    }
    default:
      break;
  }
  if (pod.workers.empty()) {
    return fail(ErrorCode::kNotFound, fmt::format("slot {} runs no worker now", fault.slot));
  }
  local::ProcessHandle& worker = pod.workers[fault.choice % pod.workers.size()];
  const auto of_worker = [&](const char* what) {
    return fmt::format("{} slot {} (process {}, pod {})", what, fault.slot, worker.pid(), pod.name);
  };
  if (fault.kind == FaultKind::kCutData) {
    LOCKSTEP_TRY(const std::string ends, worker.cut_connection(fault.choice / pod.workers.size()));
    return fmt::format("{}: {}", of_worker("cut a data connection of"), ends);
  }
  if (fault.kind == FaultKind::kKillWorker) {
    LOCKSTEP_CHECK_OK(worker.signal(SIGKILL));
    return of_worker("killed the worker of");
  }
  LOCKSTEP_CHECK_OK(worker.signal(SIGSTOP));
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(fault.frozen).count();
  std::string said = fmt::format("{} for {} ms", of_worker("froze the worker of"), ms);
  frozen_.push_back({std::move(worker), clock_.now() + fault.frozen});
  return said;
}

void FaultMaker::thaw() {
  for (const Frozen& one : frozen_) {
    if (clock_.now() >= one.until) static_cast<void>(one.process.signal(SIGCONT));  // or it has ended
  }
  std::erase_if(frozen_, [&](const Frozen& one) { return clock_.now() >= one.until; });
}

}  // namespace lockstep::cli
