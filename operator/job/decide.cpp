#include "operator/job/decide.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "operator/job/course.h"
#include "operator/job/death_policy.h"
#include "operator/job/failure_policy.h"
#include "operator/job/finish_policy.h"
#include "operator/job/hold_policy.h"
#include "operator/job/job_status.h"
#include "operator/job/leave_policy.h"
#include "operator/job/outside_policy.h"
#include "operator/job/placement_policy.h"
#include "operator/job/quota_policy.h"
#include "operator/job/scale_policy.h"
#include "operator/job/slot_troubles.h"
#include "operator/job/startup_policy.h"
#include "operator/job/suspend_policy.h"
#include "operator/job/time_left.h"

namespace lockstep::job {
namespace {

using api::Cause;
using rendezvous::Phase;

Course finish_if_succeeded(const Snapshot& snapshot, Course course) {
  if (!has_succeeded(snapshot, course.gang, handled_generation(course.status))) return course;
  const std::string sentence = "every rank ended with 0";
  append_attempt(course.status, new_attempt(snapshot, course.status, Cause::kCompleted, sentence));
  finish(snapshot, course.status, course.plan, true, reason_of(Cause::kCompleted), sentence);
  return course;
}

Course fail_if_out_of_time(const Snapshot& snapshot, Course course) {
  const auto end = active_deadline(*snapshot.job, course.status);
  if (!end) return course;
  if (snapshot.now >= *end) {
    return fail_job(snapshot, std::move(course), Cause::kDeadlineExceeded, reason_of(Cause::kDeadlineExceeded),
                    fmt::format("deadlines.activeSeconds ({}) are over", *snapshot.job->spec.deadlines.active_seconds));
  }
  course.plan.look_again_in(*end - snapshot.now);
  return course;
}

Course follow_scale(const Snapshot& snapshot, Course course) {
  apply_scale(snapshot, course.gang, course.status, course.plan);
  return course;
}

// Of the generation that runs, or ran until a failure that is to be judged.
Course take_progress(const Snapshot& snapshot, Course course) {
  if (!snapshot.view || snapshot.view->generation <= handled_generation(course.status)) return course;
  const auto& view = *snapshot.view;
  if (view.phase != Phase::kUp && view.phase != Phase::kBroken) return course;
  const auto& saved = view.newest_checkpoint;
  note_progress(view.progress.step, saved ? std::optional(saved->step) : std::nullopt, snapshot.now,
                course.status.restarts);
  return course;
}

// Until the coordinator has read the record, the generation that a failure would belong to is unknown.
Course judge_generation(const Snapshot& snapshot, Course course) {
  if (!snapshot.view) return course;
  return handle_failure(snapshot, std::move(course));
}

Course miss_startup(const Snapshot& snapshot, Course course, const std::optional<Blocker>& blocker) {
  const auto missed = fmt::format("not started within deadlines.startupSeconds ({}) after enough pods were placed: ",
                                  snapshot.job->spec.deadlines.startup_seconds);
  if (blocker) {
    return fail_job(snapshot, std::move(course), Cause::kNotStarted, blocker->reason, missed + blocker->message);
  }
  const auto message = missed + "still " + waiting_for(snapshot, course.gang);
  return fail_job(snapshot, std::move(course), Cause::kNotStarted, "StartupDeadlineExceeded", message);
}

// No event tells when a silence on a node that is not ready has been long enough.
bool awaits_silent(const Snapshot& snapshot, const Survey& gang) {
  return std::any_of(gang.slots.begin(), gang.slots.end(), [&](const SlotView& slot) {
    return slot.state == SlotState::kLive && silent_on_dead_node(snapshot, *slot.pod);
  });
}

// When the next attempt may begin: restart_delay() after the end of the last one.
WallTime next_start(const Snapshot& snapshot, const Course& course) {
  const auto& status = course.status;
  const bool repairing = api::is_true(status.conditions, "Restarting") ||
                         (api::may_leave_out(snapshot.job->spec) && !course.gang.all_placed());
  if (!repairing || status.attempts.empty() || !status.attempts.back().end_time) return snapshot.now;
  const auto delay = restart_delay(snapshot.job->spec, status.restarts);
  return snapshot.now + time_left(snapshot.now, *status.attempts.back().end_time, delay);
}

Course run_pods(const Snapshot& snapshot, Course course) {
  const auto start = next_start(snapshot, course);
  auto& plan = course.plan;
  plan_pods(snapshot, course.gang, course.status, start, plan);
  plan.coordinator = job_plan(snapshot, course.gang, course.status);
  if (snapshot.now < start && course.status.attempts.back().strategy == api::Strategy::kInPlace) {
    plan.coordinator->handled_generation = course.status.attempts.back().generation - 1;
    plan.look_again_in(start - snapshot.now);
  }
  if (snapshot.settling || awaits_silent(snapshot, course.gang)) plan.look_again_in(std::chrono::seconds(1));
  return course;
}

Course start_or_wait(const Snapshot& snapshot, Course course) {
  auto blocker = find_blocker(snapshot, course.gang);
  const bool released = release_gang(snapshot, course.gang, course.status, course.plan) ||
                        release_for_quota(snapshot, course.gang, course.status, blocker, course.plan);
  if (blocker && blocker->permanent) {
    return fail_job(snapshot, std::move(course), Cause::kNotStarted, blocker->reason, blocker->message);
  }
  if (const auto end = startup_deadline(snapshot, course.gang, course.status)) {
    if (snapshot.now >= *end) return miss_startup(snapshot, std::move(course), blocker);
    course.plan.look_again_in(*end - snapshot.now);
  }
  describe(snapshot, course.gang, blocker, course.status, course.plan);
  if (const auto wait = refusal_wait(snapshot)) course.plan.look_again_in(*wait);
  course = run_pods(snapshot, std::move(course));
  if (released) {
    course.plan.creates.clear();
    course.plan.moves.clear();
    course.plan.opens.clear();
    course.plan.coordinator->members.clear();  // a generation of pods that are deleted would be a loss
  }
  return course;
}

// What is asked of a job that should run, in this order, until an answer ends it.
constexpr Course (*kQuestions[])(const Snapshot&, Course) = {
    finish_if_succeeded, fail_if_out_of_time, follow_scale, take_progress, note_deaths,
    judge_generation,    replace_outside,     leave_sick,   start_or_wait,
};

Course run(const Snapshot& snapshot, Course course) {
  course.gang =
      survey(snapshot, course.status.incarnation, course.status.released, has_unhandled(snapshot, course.status));
  for (const auto& ask : kQuestions) {
    course = ask(snapshot, std::move(course));
    if (is_finished(course.status)) break;
  }
  return course;
}

// The garbage collector takes the pods; nothing more may be created (foreground deletion would never end).
Plan stop_deleted(const Snapshot& snapshot) {
  Plan plan;
  plan.coordinator = job_plan(snapshot, survey(snapshot), snapshot.job->status);
  plan.coordinator->stop = true;
  return plan;
}

}  // namespace

Plan decide(const Snapshot& snapshot) {
  const auto& job = *snapshot.job;
  if (!job.status.slots) return decide(with_troubles(snapshot));
  Course course{.status = job.status, .gang = {}, .plan = {}};
  if (is_finished(job.status)) {
    if (!job.meta.deleted) clean_up(snapshot, course.plan);
    return std::move(course.plan);
  }
  if (job.meta.deleted) return stop_deleted(snapshot);
  fill_in(snapshot, course.status);
  forget_troubles(snapshot, course.status);
  if (apply_suspend(snapshot, course.status, course.plan) || apply_hold(snapshot, course.status, course.plan)) {
    count(snapshot, survey(snapshot), course.status);
  } else {
    auto& incarnation = course.status.incarnation;
    incarnation = std::clamp<std::int64_t>(incarnation, 1, kMostIncarnation);
    incarnation = std::max(incarnation, known_incarnation(snapshot));
    course = run(snapshot, std::move(course));
    count(snapshot, course.gang, course.status);
    tell_divergence(snapshot, course.status, course.plan);
  }
  settle(snapshot, std::move(course.status), course.plan);
  return std::move(course.plan);
}

}  // namespace lockstep::job
