#include "operator/job/restart_policy.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "operator/api/cause.h"
#include "operator/rendezvous/worker_contract.h"

namespace lockstep::job {
namespace {

using api::Attempt;
using api::Cause;

constexpr int kSigkillCode = 128 + 9;
constexpr int kSigtermCode = 128 + 15;
// Entries of the window. Beyond it the two that are closest in time become one, which counts until the newer leaves.
constexpr size_t kMostEntries = 32;
// A job that ran for this long has made progress if it reports no steps, or new ones. The kubelet resets the back-off
// of a container by the same rule.
constexpr auto kLongRun = std::chrono::minutes(10);

// A process that ended for a reason of its own: what a crash loop is made of.
bool is_own_failure(const Attempt& attempt) {
  if (attempt.cause != Cause::kProcessExit && attempt.cause != Cause::kProcessSignal) return false;
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
      std::find(rule.on_reasons.begin(), rule.on_reasons.end(), failure.cause.text()) == rule.on_reasons.end()) {
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

bool is_process_cause(Cause cause) {
  return cause == Cause::kProcessExit || cause == Cause::kProcessSignal || cause == Cause::kStopped;
}

RestartVerdict go_on_uncounted(std::string explanation) {
  return {.restart = true, .counted = false, .reason = "", .explanation = std::move(explanation)};
}

RestartVerdict give_up(std::string reason, std::string explanation) {
  return {.restart = false, .counted = false, .reason = std::move(reason), .explanation = std::move(explanation)};
}

RestartVerdict give_up(Cause cause, std::string explanation) {
  return give_up(std::string(api::name_of(cause)), std::move(explanation));
}

// Has the last own failure of the job been the same one?
bool repeats(const api::TrainingJobSpec& spec, const std::optional<api::OwnFailure>& last, const Attempt& failure) {
  if (!last || !is_own_failure(failure)) return false;
  // Without reported steps every failure is at step 0, which then says nothing.
  if (failure.step == 0 && spec.rendezvous.kind != api::RendezvousKind::kLockstep) return false;
  return *last == api::OwnFailure{failure.step, *failure.exit_code};
}

WallTime begin_of_window(const api::TrainingJobSpec& spec, WallTime now) {
  return now - std::chrono::seconds(spec.restart.window_seconds);
}

void charge(const api::TrainingJobSpec& spec, WallTime end, WallTime now, api::RestartsStatus& restarts) {
  auto& window = *restarts.window;
  std::erase_if(window, [&](const auto& entry) { return entry.time <= begin_of_window(spec, now); });
  // A clock that was set back must not keep them for longer than the window.
  for (auto& entry : window) entry.time = std::min(entry.time, now);
  window.push_back({.time = std::min(end, now), .count = 1});
  ++restarts.charged;
  if (window.size() > kMostEntries) {
    size_t closest = 1;
    for (size_t i = 2; i < window.size(); ++i) {
      if (window[i].time - window[i - 1].time < window[closest].time - window[closest - 1].time) closest = i;
    }
    window[closest].count += window[closest - 1].count;
    window.erase(window.begin() + static_cast<std::ptrdiff_t>(closest) - 1);
  }
}

RestartVerdict within_budget(const api::TrainingJobSpec& spec, const api::RestartsStatus& restarts, WallTime now) {
  const int counted = counted_restarts(spec, restarts, now);
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
  return api::is_infrastructure(attempt.cause) ||
         (is_process_cause(attempt.cause) && attempt.exit_code == rendezvous::kExitStopped);
}

RestartVerdict judge_failure(const api::TrainingJobSpec& spec, const api::RestartsStatus& restarts,
                             const Attempt& failure, WallTime now) {
  for (size_t i = 0; i < spec.restart.rules.size(); ++i) {
    const auto& rule = spec.restart.rules[i];
    if (!matches(rule, failure)) continue;
    if (rule.action == api::RuleAction::kFail) {
      return give_up("RestartRule", fmt::format("restart.rules[{}] says Fail", i));
    }
    if (!rule.counts_towards_max) return go_on_uncounted(fmt::format("restart.rules[{}] says Restart, not counted", i));
    RestartVerdict verdict = within_budget(spec, restarts, now);
    verdict.explanation = fmt::format("restart.rules[{}] says Restart: {}", i, verdict.explanation);
    return verdict;
  }
  if (is_infrastructure(failure)) return go_on_uncounted("not the job's doing, so not counted");
  if (failure.cause == Cause::kCommandNotFound) {
    return give_up(Cause::kCommandNotFound, "a command that is not there now will not be there later");
  }
  if (failure.cause == Cause::kIdentityMismatch) {
    return give_up(Cause::kIdentityMismatch, "ranks that compute differently do so after a restart, too");
  }
  if (failure.cause == Cause::kOomKilled && restarts.out_of_memory) {
    return give_up(Cause::kOomKilled, "it ran out of memory for the second time; raise resources.limits.memory");
  }
  if (is_process_cause(failure.cause) && failure.exit_code &&
      is_permanent_code(spec.rendezvous.kind, *failure.exit_code)) {
    return give_up("PermanentExitCode", fmt::format("exit code {} is permanent", *failure.exit_code));
  }
  if (repeats(spec, restarts.last_failure, failure)) {
    return give_up("CrashLoop",
                   fmt::format("step {} failed twice with exit code {}", failure.step, *failure.exit_code));
  }
  return within_budget(spec, restarts, now);
}

void note_verdict(const api::TrainingJobSpec& spec, const Attempt& attempt, WallTime now,
                  api::RestartsStatus& restarts) {
  if (!restarts.window) restarts.window.emplace();
  if (attempt.counted) charge(spec, attempt.end_time.value_or(now), now, restarts);
  restarts.counted = counted_restarts(spec, restarts, now);
  restarts.last_cause = attempt.cause;
  if (is_own_failure(attempt)) restarts.last_failure = api::OwnFailure{attempt.step, *attempt.exit_code};
  if (attempt.cause == Cause::kOomKilled) restarts.out_of_memory = true;
}

void note_restart(const api::TrainingJobSpec& spec, const Attempt& attempt, WallTime now,
                  api::RestartsStatus& restarts) {
  ++restarts.total;
  const bool long_run = attempt.start_time && attempt.end_time && *attempt.end_time - *attempt.start_time >= kLongRun;
  const bool progress = long_run || attempt.step > restarts.best_step;
  restarts.without_progress = progress ? 1 : restarts.without_progress + 1;
  restarts.best_step = std::max(restarts.best_step, attempt.step);
  note_verdict(spec, attempt, now, restarts);
}

void recall_restarts(const api::TrainingJobSpec& spec, const std::vector<Attempt>& attempts, WallTime now,
                     api::RestartsStatus& restarts) {
  const api::RestartsStatus stored = restarts;
  restarts = {};
  restarts.window.emplace();
  for (const Attempt& attempt : attempts) {
    if (attempt.strategy == api::Strategy::kNothing) {
      forgive_all(restarts);
    } else {
      note_restart(spec, attempt, now, restarts);
    }
  }
  restarts.total = stored.total;
  restarts.charged = std::max(restarts.charged, stored.counted);
  restarts.last_cause = stored.last_cause;
}

void note_progress(std::int64_t step, std::optional<std::int64_t> checkpoint, WallTime now,
                   api::RestartsStatus& restarts) {
  if (!restarts.window || restarts.window->empty() || step <= restarts.best_step) return;
  const bool durable = checkpoint && *checkpoint > restarts.best_step;
  if (!durable && now - restarts.window->back().time < kLongRun) return;
  restarts.window->clear();
  restarts.counted = 0;
  restarts.without_progress = 0;
  restarts.last_failure.reset();
}

void forgive_all(api::RestartsStatus& restarts) {
  if (restarts.window) restarts.window->clear();
  restarts.counted = 0;
  restarts.without_progress = 0;
  restarts.best_step = 0;
  restarts.last_failure.reset();
  restarts.out_of_memory = false;
}

int counted_restarts(const api::TrainingJobSpec& spec, const api::RestartsStatus& restarts, WallTime now) {
  if (!restarts.window) return 0;
  std::int64_t counted = 0;
  for (const auto& entry : *restarts.window) {
    if (entry.time > begin_of_window(spec, now)) counted += entry.count;
  }
  return static_cast<int>(std::clamp<std::int64_t>(counted, 0, std::numeric_limits<int>::max()));
}

Duration restart_delay(const api::TrainingJobSpec& spec, const api::RestartsStatus& restarts) {
  if (restarts.without_progress <= 1) return Duration::zero();
  const std::int64_t most = std::max(spec.restart.backoff_max_seconds, 0);
  std::int64_t seconds = std::max(spec.restart.backoff_initial_seconds, 0);
  for (int i = 2; i < restarts.without_progress && seconds > 0 && seconds < most; ++i) seconds *= 2;
  return std::chrono::seconds(std::min(seconds, most));
}

}  // namespace lockstep::job
