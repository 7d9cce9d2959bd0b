#include "operator/job/outside_policy.h"

#include <algorithm>
#include <utility>

#include "operator/job/failure_policy.h"
#include "operator/job/finish_policy.h"
#include "operator/job/job_status.h"
#include "operator/job/slot_troubles.h"
#include "operator/job/time_left.h"

namespace lockstep::job {
namespace {

using api::Attempt;
using api::Cause;

// The least time between two pods of a spare that fails by itself.
constexpr auto kSpareEvery = std::chrono::seconds(10);

// What is due for one slot.
struct Due {
  enum class What { kNothing, kWait, kDelete, kReplaceSpare, kReplaceMember };
  What what = What::kNothing;
  Duration wait{};
};

// The gang runs with all its nodes: no rank waits for the lost pod.
bool gang_is_whole(const Snapshot& snapshot) {
  const auto& spec = snapshot.job->spec;
  const auto& members = snapshot.view->members;
  return spec.spares > 0 &&
         std::count_if(members.begin(), members.end(), [](const auto& member) { return member.in_gang; }) >= spec.nodes;
}

// The gang goes on without a silent agent. Its pod is recreated when the agent does not come back, even if it looks
// well.
Due due_for_silent(const Snapshot& snapshot, const Course& course, const SlotView& slot) {
  const auto* member = snapshot.view->member_of(slot.slot);
  const auto* silence = find_silence(course.status, slot);
  if ((member != nullptr && member->connected) || silence == nullptr || !silence->since) return {};
  const auto left = time_left(snapshot.now, *silence->since, kSilence);
  if (left > Duration::zero()) return {Due::What::kWait, left};
  return {Due::What::kDelete};
}

// No budget is charged for the death of a spare, so a minimum time between two of its pods bounds a crash loop.
Due due_for_spare(const Snapshot& snapshot, const SlotView& slot) {
  if (slot.cause == Cause::kPodFailed || slot.cause == Cause::kOomKilled) {
    const auto not_before = slot.pod->meta.created.value_or(snapshot.now) + kSpareEvery;
    if (snapshot.now < not_before) return {Due::What::kWait, not_before - snapshot.now};
  }
  return {Due::What::kReplaceSpare};
}

Due due_for(const Snapshot& snapshot, const Course& course, const SlotView& slot) {
  if (!slot.outside) return {};
  if (slot.state == SlotState::kLive) return due_for_silent(snapshot, course, slot);
  if (slot.state != SlotState::kLost) return {};
  if (find_silence(course.status, slot) == nullptr && gang_is_whole(snapshot)) return due_for_spare(snapshot, slot);
  return {Due::What::kReplaceMember};
}

// Where the attempt is in the list; empty when it has left it.
std::optional<size_t> attempt_of(const std::vector<Attempt>& attempts, const api::SlotStatus& silence) {
  for (size_t i = attempts.size(); i-- > 0;) {
    if (attempts[i].generation == silence.generation && attempts[i].pod == silence.pod) return i;
  }
  return std::nullopt;
}

EventToSend replacement_of(const SlotView& slot) {
  return {true, reason_of(slot.cause), "Replace", slot.message.substr(0, slot.message.find('\n'))};
}

// It may be the pod whose silence the others did not wait for: now it is known what that was, and its attempt says so.
Course replace_member(const Snapshot& snapshot, Course course, const SlotView& slot) {
  const auto& spec = snapshot.job->spec;
  const api::SlotStatus* silence = find_silence(course.status, slot);
  const bool known = silence != nullptr;
  const auto told = known ? attempt_of(course.status.attempts, *silence) : std::nullopt;
  Attempt attempt;
  if (told) {
    attempt = course.status.attempts[*told];
  } else {
    attempt = new_attempt(snapshot, course.status, slot.cause, slot.message);
    attempt.generation = handled_generation(course.status);  // it ended none
    attempt.strategy = api::Strategy::kReplaceFailed;
    attempt = with_pod_of(course.gang, slot.slot, std::move(attempt));
  }
  attempt.cause = slot.cause;
  attempt.message = slot.message;
  attempt.exit_code = slot.exit_code;
  const auto verdict = judge_failure(spec, course.status.restarts, attempt, snapshot.now);
  if (!verdict.restart) return give_up(snapshot, std::move(course), std::move(attempt), verdict, told);
  attempt.counted = verdict.counted;
  attempt.decision = verdict.explanation;
  course.plan.events.push_back(replacement_of(slot));
  if (!known) {
    if (is_infrastructure(attempt)) return course;
    return add_restart(snapshot, std::move(course), std::move(attempt));
  }
  note_verdict(spec, attempt, snapshot.now, course.status.restarts);
  const std::string pod = silence->pod;
  std::erase_if(*course.status.slots, [&](const auto& entry) { return entry.pod == pod; });
  note_trouble(snapshot, attempt, course.status);
  if (told) course.status.attempts[*told] = std::move(attempt);
  return course;
}

}  // namespace

Course replace_outside(const Snapshot& snapshot, Course course) {
  bool any = false;
  for (size_t i = 0; i < course.gang.slots.size(); ++i) {
    const Due due = due_for(snapshot, course, course.gang.slots[i]);
    if (due.what == Due::What::kNothing) continue;
    if (due.what == Due::What::kWait) {
      course.plan.look_again_in(due.wait);
      continue;
    }
    const SlotView slot = course.gang.slots[i];
    if (due.what == Due::What::kDelete) {
      delete_pods(snapshot, {slot.pod}, "its agent is silent", course.plan);
      continue;
    }
    if (due.what == Due::What::kReplaceMember) {
      course = replace_member(snapshot, std::move(course), slot);
      if (is_finished(course.status)) return course;
    } else if (slot.pod != nullptr) {  // a slot without a pod may never have had one
      course.plan.events.push_back(replacement_of(slot));
    }
    course.gang.slots[i].state = SlotState::kEmpty;
    any = true;
  }
  if (any) course = begin_round(snapshot, std::move(course));
  return course;
}

}  // namespace lockstep::job
