#include "operator/job/course.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "operator/job/job_status.h"
#include "operator/job/slot_troubles.h"

namespace lockstep::job {
namespace {

using rendezvous::Phase;

bool has_generation(Phase phase) {
  return phase == Phase::kStarting || phase == Phase::kUp || phase == Phase::kBroken || phase == Phase::kFinished;
}

// The generation that ended: the coordinator's, or the newest that the status knows of.
std::int64_t ended_generation(const Snapshot& snapshot, const api::TrainingJobStatus& status) {
  const bool agreed = snapshot.view && snapshot.view->phase != Phase::kProposing;
  return std::max(agreed ? snapshot.view->generation : status.membership_generation, handled_generation(status));
}

}  // namespace

std::string reason_of(api::Cause cause) {
  return std::string(api::name_of(cause));
}

bool has_unhandled(const Snapshot& snapshot, const api::TrainingJobStatus& status) {
  return snapshot.view && snapshot.view->generation > handled_generation(status) &&
         has_generation(snapshot.view->phase);
}

api::Attempt new_attempt(const Snapshot& snapshot, const api::TrainingJobStatus& status, api::Cause cause,
                         std::string message) {
  api::Attempt attempt{.generation = ended_generation(snapshot, status), .cause = cause};
  attempt.message = std::move(message);
  attempt.strategy = api::Strategy::kNothing;
  attempt.end_time = whole_seconds(snapshot.now);
  const auto* running = api::find_condition(status.conditions, "Running");
  if (running != nullptr && running->status == "True") {
    attempt.start_time = running->last_transition;
  } else {
    attempt.start_time = status.attempts.empty() ? status.start_time : status.attempts.back().end_time;
  }
  if (snapshot.view) attempt.step = snapshot.view->progress.step;
  return attempt;
}

api::Attempt with_pod_of(const Survey& gang, int slot, api::Attempt attempt) {
  if (slot < 0 || static_cast<size_t>(slot) >= gang.slots.size()) return attempt;
  const auto* pod = gang.slots[static_cast<size_t>(slot)].pod;
  if (pod == nullptr) return attempt;
  attempt.pod = pod->meta.name;
  attempt.node = pod->node_name;
  return attempt;
}

Course begin_round(const Snapshot& snapshot, Course course) {
  course.status.incarnation = next_incarnation(snapshot);
  set_condition(snapshot, course.status, "Placed", false, "Replacing", "the pods are recreated");
  return course;
}

Course add_restart(const Snapshot& snapshot, Course course, api::Attempt attempt) {
  note_restart(snapshot.job->spec, attempt, snapshot.now, course.status.restarts);
  note_trouble(snapshot, attempt, course.status);
  append_attempt(course.status, std::move(attempt));
  return course;
}

Course give_up(const Snapshot& snapshot, Course course, api::Attempt attempt, const RestartVerdict& verdict,
               std::optional<std::size_t> place) {
  const auto message = fmt::format("{}; {}", verdict.explanation, attempt.message);
  attempt.decision = verdict.explanation;
  course.status.restarts.last_cause = attempt.cause;
  if (place) {
    course.status.attempts[*place] = std::move(attempt);
  } else {
    append_attempt(course.status, std::move(attempt));
  }
  finish(snapshot, course.status, course.plan, false, verdict.reason, message);
  return course;
}

Course fail_job(const Snapshot& snapshot, Course course, api::Cause cause, const std::string& reason,
                const std::string& message) {
  append_attempt(course.status, new_attempt(snapshot, course.status, cause, message));
  course.status.restarts.last_cause = cause;
  finish(snapshot, course.status, course.plan, false, reason, message);
  return course;
}

}  // namespace lockstep::job
