#include "operator/job/failure_policy.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "operator/job/job_status.h"
#include "operator/job/leave_policy.h"

namespace lockstep::job {
namespace {

using api::Attempt;
using api::Cause;
using api::Strategy;
using rendezvous::Phase;

// The coordinator closes a connection that was silent for 10 s.
constexpr auto kDeadConnection = std::chrono::seconds(12);
// A pod's deletion reaches its processes and our cache in an unknown order; a stop waits this long for the reason.
constexpr auto kReason = std::chrono::seconds(1);
constexpr int kSigterm = 15;

bool was_stopped(const rendezvous::Failure& failure) {
  return failure.cause == Cause::kStopped || failure.signal == kSigterm || failure.exit_code == 128 + kSigterm ||
         failure.exit_code == rendezvous::kExitStopped;
}

const SlotView* lost_slot(const Survey& gang, int preferred) {
  const SlotView* first = nullptr;
  for (const auto& slot : gang.slots) {
    if (slot.state != SlotState::kLost || slot.outside) continue;
    if (slot.slot == preferred) return &slot;
    if (first == nullptr) first = &slot;
  }
  return first;
}

Attempt from_process(const Snapshot& snapshot, const Course& course, const rendezvous::Failure& failure) {
  Attempt attempt = new_attempt(snapshot, course.status, failure.cause, failure.message);
  attempt.generation = failure.generation;
  attempt.first_failing_rank = failure.rank;
  if (failure.exit_code) attempt.exit_code = *failure.exit_code;
  attempt.step = std::max(attempt.step, failure.step);
  attempt.detect_ms = failure.detect_ms;
  return with_pod_of(course.gang, failure.slot, std::move(attempt));
}

Attempt from_pod(const Snapshot& snapshot, const Course& course, const SlotView& slot) {
  Attempt attempt = new_attempt(snapshot, course.status, slot.cause, slot.message);
  attempt.first_failing_rank = snapshot.view->first_rank_of(slot.slot);
  if (slot.exit_code) attempt.exit_code = *slot.exit_code;
  attempt = with_pod_of(course.gang, slot.slot, std::move(attempt));
  const auto& failure = snapshot.view->failure;
  if (!failure || failure->slot != slot.slot) return attempt;
  if (failure->rank >= 0) attempt.first_failing_rank = failure->rank;
  if (failure->cause == Cause::kMemberLost) {
    attempt.detect_ms = failure->detect_ms;
    attempt.message += "; " + failure->message;
  }
  return attempt;
}

// What is left of `wait` after the failure of the view.
Duration left_of(const Snapshot& snapshot, Duration wait) {
  return std::max(wait - snapshot.failure_age, Duration::zero());
}

// The member speaks again. A connection that nobody closed proves it only once a dead one would have been noticed.
bool speaks_again(const Snapshot& snapshot, const rendezvous::Failure& failure) {
  if (left_of(snapshot, kDeadConnection) > Duration::zero()) return false;
  const auto* member = snapshot.view->member_of(failure.slot);
  return member != nullptr && member->connected;
}

// Enough members are left to go on at once, with fewer or with a spare, whatever has become of the one that fell
// silent.
bool can_shrink(const Snapshot& snapshot, const rendezvous::Failure& failure) {
  if (!api::may_leave_out(snapshot.job->spec)) return false;
  const auto& members = snapshot.view->members;
  return std::count_if(members.begin(), members.end(), [&](const auto& member) {
           return member.connected && !member.leaving && member.slot != failure.slot;
         }) >= api::fewest_nodes(snapshot.job->spec);
}

// A member fell silent while its pod and node look well: the pod or the node will say more, or it is replaced.
Course wait_for_word_of(const Snapshot& snapshot, Course course, const rendezvous::Failure& failure) {
  const std::string lost = reason_of(Cause::kMemberLost);
  const auto* before = api::find_condition(course.status.conditions, "Restarting");
  const bool waiting = before != nullptr && before->status == "True" && before->reason == lost;
  const auto sentence = fmt::format("slot {} fell silent; waiting for word of its pod and node", failure.slot);
  set_condition(snapshot, course.status, "Running", false, lost, sentence);
  set_condition(snapshot, course.status, "Restarting", true, lost, sentence);
  if (!waiting) course.plan.events.push_back({true, lost, "Restart", sentence});
  if (const auto silence = left_of(snapshot, kSilence); silence > Duration::zero()) {
    const auto back = left_of(snapshot, kDeadConnection);
    course.plan.look_again_in(back > Duration::zero() ? back : silence);
    return course;
  }
  if (failure.slot < 0 || static_cast<size_t>(failure.slot) >= course.gang.slots.size()) return course;
  // Deleted first and dealt with when the deletion shows: a crash in between loses nothing.
  const auto* pod = course.gang.slots[static_cast<size_t>(failure.slot)].pod;
  if (pod != nullptr) delete_pods(snapshot, {pod}, "its agent is silent", course.plan);
  return course;
}

Strategy strategy_for(const Snapshot& snapshot, const Survey& gang, Cause cause) {
  if (snapshot.job->spec.restart.strategy == api::RestartStrategy::kGang) return Strategy::kGang;
  const bool goes = cause == Cause::kPartitioned || cause == Cause::kUnhealthy;
  if (lost_slot(gang, -1) != nullptr || goes) return Strategy::kReplaceFailed;
  const bool shrinks = cause == Cause::kMemberLost && api::may_leave_out(snapshot.job->spec);
  return shrinks ? Strategy::kShrink : Strategy::kInPlace;
}

// A process that failed or hung in a sick pod would start there again: its pod is to go, and `attempt` says why.
// Returns the slot of that pod.
std::optional<int> blame_sickness(const Snapshot& snapshot, Course& course, Attempt& attempt) {
  const Cause cause = attempt.cause;
  if (cause != Cause::kProcessExit && cause != Cause::kProcessSignal && cause != Cause::kHang) return std::nullopt;
  const int slot = snapshot.view->failure->slot;
  if (slot < 0 || static_cast<size_t>(slot) >= course.gang.slots.size()) return std::nullopt;
  const SlotView& view = course.gang.slots[static_cast<size_t>(slot)];
  const Sickness* sick = sickness_behind(snapshot, course.status, view);
  if (sick == nullptr) return std::nullopt;
  attempt.cause = Cause::kUnhealthy;
  attempt.message = fmt::format("pod {} leaves node {}: {}; {}", attempt.pod, attempt.node,
                                note_departure(snapshot, view, *sick, course.status), attempt.message);
  return slot;
}

// The pods as they are once the loss is dealt with, which this very plan does. `partitioned`: the pod that is to go.
Survey survey_after(const Snapshot& snapshot, const api::TrainingJobStatus& status, const std::string& partitioned) {
  Survey gang = survey(snapshot, status.incarnation, status.released, false);
  for (auto& slot : gang.slots) {
    if (slot.pod != nullptr && slot.pod->meta.name == partitioned) {
      // It is deleted, and its successor told where not to go, once the attempt is stored.
      slot.state = SlotState::kLost;
      slot.outside = false;
    } else if (slot.state == SlotState::kLost && !slot.outside) {
      slot.state = SlotState::kEmpty;  // what the gang goes on without is looked at next
    }
  }
  return gang;
}

}  // namespace

Finding find_failure(const Snapshot& snapshot, const Course& course) {
  const auto& view = *snapshot.view;
  const bool broken = has_unhandled(snapshot, course.status) && view.phase == Phase::kBroken && view.failure;
  const SlotView* lost = lost_slot(course.gang, broken ? view.failure->slot : -1);
  if (!broken) return {lost != nullptr ? std::optional(from_pod(snapshot, course, *lost)) : std::nullopt};
  const auto& failure = *view.failure;
  const bool partitioned = failure.cause == Cause::kPartitioned;  // its pod is to go because of it
  if (lost != nullptr && !partitioned &&
      (lost->slot == failure.slot || failure.cause == Cause::kMemberLost || was_stopped(failure))) {
    return {from_pod(snapshot, course, *lost)};
  }
  if (failure.cause == Cause::kMemberLost && !speaks_again(snapshot, failure) && !can_shrink(snapshot, failure)) {
    return {.attempt = {}, .awaits_word = &failure};
  }
  if (was_stopped(failure)) {
    const auto age = snapshot.now - failure.time;
    if (age >= Duration::zero() && age < kReason) return {.attempt = {}, .ask_again = kReason - age};
  }
  return {from_process(snapshot, course, failure)};
}

Course handle_failure(const Snapshot& snapshot, Course course) {
  Finding found = find_failure(snapshot, course);
  if (found.awaits_word != nullptr) return wait_for_word_of(snapshot, std::move(course), *found.awaits_word);
  if (found.ask_again) course.plan.look_again_in(*found.ask_again);
  if (!found.attempt) return course;
  Attempt& attempt = *found.attempt;
  const std::optional<int> sick = blame_sickness(snapshot, course, attempt);
  const auto verdict = judge_failure(snapshot.job->spec, course.status.restarts, attempt, snapshot.now);
  if (!verdict.restart) return give_up(snapshot, std::move(course), std::move(attempt), verdict);
  const Strategy strategy = strategy_for(snapshot, course.gang, attempt.cause);
  attempt.strategy = strategy;
  attempt.counted = verdict.counted;
  attempt.decision = verdict.explanation;
  const Cause cause = attempt.cause;
  const std::string message = attempt.message;
  const std::string partitioned = cause == Cause::kPartitioned ? attempt.pod : "";
  course = add_restart(snapshot, std::move(course), std::move(attempt));
  set_condition(snapshot, course.status, "Running", false, reason_of(cause), message);
  set_condition(snapshot, course.status, "Restarting", true, reason_of(cause), message);
  const bool new_pods = strategy == Strategy::kGang || strategy == Strategy::kReplaceFailed;
  if (new_pods) course = begin_round(snapshot, std::move(course));
  course.plan.events.push_back({true, reason_of(cause), "Restart", message.substr(0, message.find('\n'))});
  course.gang = survey_after(snapshot, course.status, partitioned);
  if (sick) release_sick(*sick, course.gang);
  return course;
}

}  // namespace lockstep::job
