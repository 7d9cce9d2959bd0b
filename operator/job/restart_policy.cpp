#include "operator/job/restart_policy.h"

#include <algorithm>

#include <fmt/format.h>

#include "operator/rendezvous/worker_contract.h"

namespace lockstep::job {
namespace {

using api::Attempt;

constexpr int kSigkillCode = 128 + 9;
constexpr int kSigtermCode = 128 + 15;
constexpr size_t kStoredAttempts = 10;
// A job that reports no steps is taken to have made progress when it ran for this long (the kubelet's own rule for
// resetting the back-off of a container).
constexpr auto kLongRun = std::chrono::minutes(10);

// A process that ended for a reason of its own: what a crash loop is made of.
bool is_own_failure(const Attempt& attempt) {
  if (attempt.cause != kCauseProcessExit && attempt.cause != kCauseProcessSignal) return false;
  if (!attempt.exit_code) return false;
  switch (*attempt.exit_code) {
    case rendezvous::kExitTemporary:
    case rendezvous::kExitCommunication:
    case rendezvous::kExitWatchdog:
    case rendezvous::kExitStopped:
    case kSigkillCode:
    case kSigtermCode:
      return false;
    default:
      return true;
  }
}

bool matches(const api::RestartRule& rule, const Attempt& failure) {
  if (!rule.on_reasons.empty() &&
      std::find(rule.on_reasons.begin(), rule.on_reasons.end(), failure.cause) == rule.on_reasons.end()) {
    return false;
  }
  if (!rule.on_exit_codes.empty()) {
    if (!failure.exit_code) return false;
    return std::find(rule.on_exit_codes.begin(), rule.on_exit_codes.end(), *failure.exit_code) !=
           rule.on_exit_codes.end();
  }
  return true;
}

bool is_permanent_code(api::RendezvousKind kind, int code) {
  if (kind != api::RendezvousKind::kLockstep) return code == 126 || code == 127;
  if (code < 1 || code > 127) return false;
  return code != rendezvous::kExitTemporary && code != rendezvous::kExitCommunication &&
         code != rendezvous::kExitWatchdog && code != rendezvous::kExitStopped;
}

bool is_process_cause(const std::string& cause) {
  return cause == kCauseProcessExit || cause == kCauseProcessSignal || cause == kCauseStopped;
}

bool is_restart(const Attempt& attempt) {
  return attempt.strategy != "None";
}

RestartVerdict go_on_uncounted(std::string explanation) {
  return {.restart = true, .counted = false, .reason = "", .explanation = std::move(explanation)};
}

RestartVerdict give_up(std::string reason, std::string explanation) {
  return {.restart = false, .counted = false, .reason = std::move(reason), .explanation = std::move(explanation)};
}

// Has the last own failure of the job been the same one?
bool repeats(const api::TrainingJobSpec& spec, const std::vector<Attempt>& attempts, const Attempt& failure) {
  if (!is_own_failure(failure)) return false;
  // Without reported steps every failure is at step 0, which then says nothing.
  if (failure.step == 0 && spec.rendezvous.kind != api::RendezvousKind::kLockstep) return false;
  const auto last = std::find_if(attempts.rbegin(), attempts.rend(), is_own_failure);
  return last != attempts.rend() && last->step == failure.step && last->exit_code == failure.exit_code;
}

RestartVerdict within_budget(const api::TrainingJobSpec& spec, const api::TrainingJobStatus& status, WallTime now) {
  const int counted = counted_restarts(spec, status, now);
  if (counted < spec.restart.max_restarts) {
    return {.restart = true,
            .counted = true,
            .reason = "",
            .explanation = fmt::format("restart {} of restart.maxRestarts ({}) within {} s", counted + 1,
                                       spec.restart.max_restarts, spec.restart.window_seconds)};
  }
  if (spec.restart.max_restarts == 0) return give_up("RestartBudgetExceeded", "restart.maxRestarts is 0");
  return give_up("RestartBudgetExceeded", fmt::format("restart.maxRestarts ({}) was used up within {} s",
                                                      spec.restart.max_restarts, spec.restart.window_seconds));
}

}  // namespace

bool is_infrastructure(const Attempt& attempt) {
  static constexpr const char* kCauses[] = {kCausePodDeleted,       kCauseNodeLost,   kCausePreempted,
                                            kCauseEvicted,          kCauseStopped,    kCauseMemberLost,
                                            kCauseConnectionBroken, kCausePartitioned};
  if (std::any_of(std::begin(kCauses), std::end(kCauses), [&](const char* cause) { return attempt.cause == cause; })) {
    return true;
  }
  return is_process_cause(attempt.cause) && attempt.exit_code == rendezvous::kExitStopped;
}

RestartVerdict judge_failure(const api::TrainingJobSpec& spec, const api::TrainingJobStatus& status,
                             const Attempt& failure, WallTime now) {
  for (size_t i = 0; i < spec.restart.rules.size(); ++i) {
    const auto& rule = spec.restart.rules[i];
    if (!matches(rule, failure)) continue;
    if (rule.action == api::RuleAction::kFail) {
      return give_up("RestartRule", fmt::format("restart.rules[{}] says Fail", i));
    }
    if (!rule.counts_towards_max) return go_on_uncounted(fmt::format("restart.rules[{}] says Restart, not counted", i));
    RestartVerdict verdict = within_budget(spec, status, now);
    verdict.explanation = fmt::format("restart.rules[{}] says Restart: {}", i, verdict.explanation);
    return verdict;
  }
  if (is_infrastructure(failure)) return go_on_uncounted("not the job's doing, so not counted");
  if (failure.cause == kCauseCommandNotFound) {
    return give_up(kCauseCommandNotFound, "a command that is not there now will not be there later");
  }
  if (failure.cause == kCauseOomKilled) {
    const auto before = std::find_if(status.attempts.begin(), status.attempts.end(),
                                     [](const Attempt& attempt) { return attempt.cause == kCauseOomKilled; });
    if (before != status.attempts.end()) {
      return give_up(kCauseOomKilled, "it ran out of memory for the second time; raise resources.limits.memory");
    }
  }
  if (is_process_cause(failure.cause) && failure.exit_code &&
      is_permanent_code(spec.rendezvous.kind, *failure.exit_code)) {
    return give_up("PermanentExitCode", fmt::format("exit code {} is permanent", *failure.exit_code));
  }
  if (repeats(spec, status.attempts, failure)) {
    return give_up("CrashLoop",
                   fmt::format("step {} failed twice with exit code {}", failure.step, *failure.exit_code));
  }
  return within_budget(spec, status, now);
}

int counted_restarts(const api::TrainingJobSpec& spec, const api::TrainingJobStatus& status, WallTime now) {
  const auto begin = now - std::chrono::seconds(spec.restart.window_seconds);
  const auto inside = [&](const Attempt& attempt) { return attempt.end_time && *attempt.end_time > begin; };
  const auto listed = static_cast<int>(std::count_if(status.attempts.begin(), status.attempts.end(),
                                                     [&](const Attempt& a) { return a.counted && inside(a); }));
  if (status.attempts.size() < kStoredAttempts || !inside(status.attempts.front())) return listed;
  return std::max(listed, status.restarts.counted);
}

Duration restart_delay(const api::TrainingJobSpec& spec, const std::vector<Attempt>& attempts) {
  int without_progress = 0;  // restarts in a row, counted from the newest
  for (size_t i = attempts.size(); i-- > 0;) {
    const Attempt& attempt = attempts[i];
    if (!is_restart(attempt)) break;
    ++without_progress;
    std::int64_t best_before = 0;
    for (size_t j = 0; j < i; ++j) best_before = std::max(best_before, attempts[j].step);
    if (attempt.step > best_before) break;
    if (attempt.start_time && attempt.end_time && *attempt.end_time - *attempt.start_time >= kLongRun) break;
  }
  if (without_progress <= 1) return Duration::zero();
  const std::int64_t most = std::max(spec.restart.backoff_max_seconds, 0);
  std::int64_t seconds = std::max(spec.restart.backoff_initial_seconds, 0);
  for (int i = 2; i < without_progress && seconds < most; ++i) seconds *= 2;
  return std::chrono::seconds(std::min(seconds, most));
}

}  // namespace lockstep::job
