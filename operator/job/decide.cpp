#include "operator/job/decide.h"

#include <algorithm>

#include <fmt/format.h>

#include "operator/api/cause.h"
#include "operator/job/finish_policy.h"
#include "operator/job/hold_policy.h"
#include "operator/job/job_status.h"
#include "operator/job/pod_policy.h"
#include "operator/job/quota_policy.h"
#include "operator/job/restart_policy.h"
#include "operator/job/scale_policy.h"
#include "operator/job/slot_troubles.h"
#include "operator/job/startup_policy.h"
#include "operator/job/suspend_policy.h"
#include "operator/job/time_left.h"

namespace lockstep::job {
namespace {

using api::Attempt;
using api::Cause;
using api::Strategy;
using rendezvous::Phase;

// The API server learns of a dead node after its controller manager's grace period (40 to 50 s); only a member that is
// silent for longer on a node that is called healthy has its pod replaced for silence alone.
constexpr auto kSilence = std::chrono::seconds(60);
// The coordinator closes a connection that was silent for 10 s.
constexpr auto kDeadConnection = std::chrono::seconds(12);
// A pod's deletion reaches its processes and our cache in an unknown order; a stop waits this long for the reason.
constexpr auto kReason = std::chrono::seconds(1);
constexpr int kSigterm = 15;
// A spare that fails by itself is made anew at most so often.
constexpr auto kSpareEvery = std::chrono::seconds(10);

std::string word(Cause cause) {
  return std::string(api::name_of(cause));
}

bool exists(Phase phase) {
  return phase == Phase::kStarting || phase == Phase::kUp || phase == Phase::kBroken || phase == Phase::kFinished;
}

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

// One decision on a job that should run.
class Running {
 public:
  Running(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan)
      : snapshot_(snapshot),
        job_(*snapshot.job),
        status_(status),
        plan_(plan),
        gang_(survey(snapshot, status.incarnation, status.released, unhandled())) {}

  void decide() {
    if (has_succeeded(snapshot_, gang_, handled_generation(status_))) return succeed();
    if (const auto end = active_deadline(job_, status_)) {
      if (snapshot_.now >= *end) {
        return fail(Cause::kDeadlineExceeded, word(Cause::kDeadlineExceeded),
                    fmt::format("deadlines.activeSeconds ({}) are over", *job_.spec.deadlines.active_seconds));
      }
      plan_.look_again_in(*end - snapshot_.now);
    }
    apply_scale(snapshot_, gang_, status_, plan_);
    // Until the coordinator has read the record, nobody knows which generation a failure would belong to.
    if (snapshot_.view) {
      take_progress();
      handle_failure();
    }
    if (is_finished(status_)) return;
    replace_outside();
    if (is_finished(status_)) return;
    auto blocker = find_blocker(snapshot_, gang_);
    const bool released = release_for_quota(snapshot_, gang_, status_, blocker, plan_);
    if (blocker && blocker->permanent) return fail(Cause::kNotStarted, blocker->reason, blocker->message);
    if (const auto end = startup_deadline(snapshot_, gang_, status_)) {
      if (snapshot_.now >= *end) return miss_startup(blocker);
      plan_.look_again_in(*end - snapshot_.now);
    }
    describe(snapshot_, gang_, blocker, status_, plan_);
    run_pods();
    if (released) plan_.creates.clear();
  }

 private:
  bool unhandled() const {
    return snapshot_.view && snapshot_.view->generation > handled_generation(status_) && exists(snapshot_.view->phase);
  }

  // Of the generation that runs, or ran until a failure that is to be judged.
  void take_progress() {
    const auto& view = *snapshot_.view;
    if (view.generation <= handled_generation(status_)) return;
    if (view.phase != Phase::kUp && view.phase != Phase::kBroken) return;
    const auto& saved = view.newest_checkpoint;
    note_progress(view.progress.step, saved ? std::optional(saved->step) : std::nullopt, snapshot_.now,
                  status_.restarts);
  }

  // The generation that ended: the coordinator's, or the newest that the status knows of.
  std::int64_t ended_generation() const {
    const bool agreed = snapshot_.view && snapshot_.view->phase != Phase::kProposing;
    return std::max(agreed ? snapshot_.view->generation : status_.membership_generation, handled_generation(status_));
  }

  Attempt new_attempt(Cause cause, std::string message) const {
    Attempt attempt{.generation = ended_generation(), .cause = cause};
    attempt.message = std::move(message);
    attempt.strategy = Strategy::kNothing;
    attempt.end_time = whole_seconds(snapshot_.now);
    const auto* running = api::find_condition(status_.conditions, "Running");
    if (running != nullptr && running->status == "True") {
      attempt.start_time = running->last_transition;
    } else {
      attempt.start_time = status_.attempts.empty() ? status_.start_time : status_.attempts.back().end_time;
    }
    if (snapshot_.view) attempt.step = snapshot_.view->progress.step;
    return attempt;
  }

  void name_slot(Attempt& attempt, int slot) const {
    if (slot < 0 || static_cast<size_t>(slot) >= gang_.slots.size()) return;
    const auto* pod = gang_.slots[static_cast<size_t>(slot)].pod;
    if (pod == nullptr) return;
    attempt.pod = pod->meta.name;
    attempt.node = pod->node_name;
  }

  Attempt from_process(const rendezvous::Failure& failure) const {
    Attempt attempt = new_attempt(failure.cause, failure.message);
    attempt.generation = failure.generation;
    attempt.first_failing_rank = failure.rank;
    if (failure.exit_code) attempt.exit_code = *failure.exit_code;
    attempt.step = std::max(attempt.step, failure.step);
    attempt.detect_ms = failure.detect_ms;
    name_slot(attempt, failure.slot);
    return attempt;
  }

  Attempt from_pod(const SlotView& slot) const {
    Attempt attempt = new_attempt(slot.cause, slot.message);
    attempt.first_failing_rank = slot.slot * api::resolved_procs_per_node(job_.spec);
    if (slot.exit_code) attempt.exit_code = *slot.exit_code;
    name_slot(attempt, slot.slot);
    const auto& failure = snapshot_.view->failure;
    if (!failure || failure->slot != slot.slot) return attempt;
    if (failure->rank >= 0) attempt.first_failing_rank = failure->rank;
    if (failure->cause == Cause::kMemberLost) {
      attempt.detect_ms = failure->detect_ms;
      attempt.message += "; " + failure->message;
    }
    return attempt;
  }

  // The member speaks again. A connection that nobody closed proves it only once a dead one would have been noticed.
  bool is_back(const rendezvous::Failure& failure) const {
    if (time_left(snapshot_.now, failure.time, kDeadConnection) > Duration::zero()) return false;
    const auto* member = snapshot_.view->member_of(failure.slot);
    return member != nullptr && member->connected;
  }

  // Enough members are left to go on at once, with fewer or with a spare, whatever has become of the one that fell
  // silent.
  bool can_shrink() const {
    if (!api::may_leave_out(job_.spec)) return false;
    const auto& failure = *snapshot_.view->failure;
    const auto& members = snapshot_.view->members;
    return std::count_if(members.begin(), members.end(), [&](const auto& member) {
             return member.connected && !member.leaving && member.slot != failure.slot;
           }) >= api::fewest_nodes(job_.spec);
  }

  // What ended the generation, once that can be told; empty when nothing did, or when it is worth waiting for word of
  // the pod.
  std::optional<Attempt> what_failed() {
    const auto& view = *snapshot_.view;
    const bool broken = unhandled() && view.phase == Phase::kBroken && view.failure;
    const SlotView* lost = lost_slot(gang_, broken ? view.failure->slot : -1);
    if (!broken) return lost != nullptr ? std::optional(from_pod(*lost)) : std::nullopt;
    const auto& failure = *view.failure;
    const bool partitioned = failure.cause == Cause::kPartitioned;  // its pod is to go because of it
    if (lost != nullptr && !partitioned &&
        (lost->slot == failure.slot || failure.cause == Cause::kMemberLost || was_stopped(failure))) {
      return from_pod(*lost);
    }
    if (failure.cause == Cause::kMemberLost && !is_back(failure) && !can_shrink()) {
      wait_for_word_of(failure);
      return std::nullopt;
    }
    if (was_stopped(failure)) {
      const auto age = snapshot_.now - failure.time;
      if (age >= Duration::zero() && age < kReason) {
        plan_.look_again_in(kReason - age);
        return std::nullopt;
      }
    }
    return from_process(failure);
  }

  // A member fell silent while its pod and node look well: the pod or the node will say more, or it is replaced.
  void wait_for_word_of(const rendezvous::Failure& failure) {
    const auto* before = api::find_condition(status_.conditions, "Restarting");
    const bool waiting = before != nullptr && before->status == "True" && before->reason == word(Cause::kMemberLost);
    const auto sentence = fmt::format("slot {} fell silent; waiting for word of its pod and node", failure.slot);
    set_condition(snapshot_, status_, "Running", false, word(Cause::kMemberLost), sentence);
    set_condition(snapshot_, status_, "Restarting", true, word(Cause::kMemberLost), sentence);
    if (!waiting) plan_.events.push_back({true, word(Cause::kMemberLost), "Restart", sentence});
    // The time is of the coordinator's clock, which is ours.
    if (const auto silence = time_left(snapshot_.now, failure.time, kSilence); silence > Duration::zero()) {
      const auto back = time_left(snapshot_.now, failure.time, kDeadConnection);
      plan_.look_again_in(back > Duration::zero() ? back : silence);
      return;
    }
    if (failure.slot < 0 || static_cast<size_t>(failure.slot) >= gang_.slots.size()) return;
    // Deleted first and dealt with when the deletion shows: a crash in between loses nothing.
    const auto* pod = gang_.slots[static_cast<size_t>(failure.slot)].pod;
    if (pod != nullptr) delete_pods(snapshot_, {pod}, "its agent is silent", plan_);
  }

  // `place`: where the attempt is stored already, with less known of it; null: it is new.
  void give_up(Attempt attempt, const RestartVerdict& verdict, Attempt* place = nullptr) {
    const auto message = fmt::format("{}; {}", verdict.explanation, attempt.message);
    attempt.decision = verdict.explanation;
    status_.restarts.last_cause = attempt.cause;
    if (place != nullptr) {
      *place = std::move(attempt);
    } else {
      append_attempt(status_, std::move(attempt));
    }
    finish(snapshot_, status_, plan_, false, verdict.reason, message);
  }

  // Null when it has left the list.
  Attempt* attempt_of(const api::SlotStatus& silence) {
    const auto at = std::find_if(status_.attempts.rbegin(), status_.attempts.rend(), [&](const Attempt& attempt) {
      return attempt.generation == silence.generation && attempt.pod == silence.pod;
    });
    return at == status_.attempts.rend() ? nullptr : &*at;
  }

  void add_restart(Attempt attempt) {
    note_restart(job_.spec, attempt, snapshot_.now, status_.restarts);
    note_trouble(snapshot_, attempt, status_);
    append_attempt(status_, std::move(attempt));
  }

  void handle_failure() {
    auto attempt = what_failed();
    if (!attempt) return;
    const auto verdict = judge_failure(job_.spec, status_.restarts, *attempt, snapshot_.now);
    if (!verdict.restart) return give_up(std::move(*attempt), verdict);
    const bool whole_gang = job_.spec.restart.strategy == api::RestartStrategy::kGang;
    const bool new_pods = whole_gang || lost_slot(gang_, -1) != nullptr || attempt->cause == Cause::kPartitioned;
    const bool shrinks = attempt->cause == Cause::kMemberLost && api::may_leave_out(job_.spec);
    attempt->strategy = whole_gang ? Strategy::kGang
                        : new_pods ? Strategy::kReplaceFailed
                        : shrinks  ? Strategy::kShrink
                                   : Strategy::kInPlace;
    attempt->counted = verdict.counted;
    attempt->decision = verdict.explanation;
    const Cause cause = attempt->cause;
    const auto message = attempt->message;
    const auto partitioned = cause == Cause::kPartitioned ? attempt->pod : "";
    add_restart(std::move(*attempt));
    set_condition(snapshot_, status_, "Running", false, word(cause), message);
    set_condition(snapshot_, status_, "Restarting", true, word(cause), message);
    if (new_pods) begin_round();
    plan_.events.push_back({true, word(cause), "Restart", message.substr(0, message.find('\n'))});
    gang_ = survey(snapshot_, status_.incarnation, status_.released, false);
    for (auto& slot : gang_.slots) {
      if (slot.pod != nullptr && slot.pod->meta.name == partitioned) {
        // It is deleted, and its successor told where not to go, once the attempt is stored.
        slot.state = SlotState::kLost;
        slot.outside = false;
      } else if (slot.state == SlotState::kLost && !slot.outside) {
        slot.state =
            SlotState::kEmpty;  // dealt with by this very plan; what the gang goes on without is looked at next
      }
    }
  }

  // A new round of pods: written before the first of them is created.
  void begin_round() {
    status_.incarnation = next_incarnation(snapshot_);
    set_condition(snapshot_, status_, "Placed", false, "Replacing", "pods are made anew");
  }

  // Pods that the generation does without are replaced while it goes on; one that fails by itself again and again ends
  // the job, as it would inside.
  void replace_outside() {
    bool any = false;
    for (auto& slot : gang_.slots) {
      if (!slot.outside) continue;
      if (slot.state == SlotState::kLive) replace_silent(slot);
      if (slot.state != SlotState::kLost) continue;
      // The others went on when its agent fell silent; now it is known why.
      const auto* silence = find_silence(status_, slot);
      const bool known = silence != nullptr;
      Attempt* const told = known ? attempt_of(*silence) : nullptr;
      if (!known && gang_is_whole()) {
        replace_spare(slot, any);
        continue;
      }
      Attempt attempt = told != nullptr ? *told : new_attempt(slot.cause, slot.message);
      attempt.cause = slot.cause;
      attempt.message = slot.message;
      attempt.exit_code = slot.exit_code;
      if (told == nullptr) {
        attempt.generation = handled_generation(status_);  // it ended none
        attempt.strategy = Strategy::kReplaceFailed;
        name_slot(attempt, slot.slot);
      }
      const auto verdict = judge_failure(job_.spec, status_.restarts, attempt, snapshot_.now);
      if (!verdict.restart) return give_up(std::move(attempt), verdict, told);
      attempt.counted = verdict.counted;
      attempt.decision = verdict.explanation;
      plan_.events.push_back({true, word(slot.cause), "Replace", slot.message.substr(0, slot.message.find('\n'))});
      if (known) {
        note_verdict(job_.spec, attempt, snapshot_.now, status_.restarts);
        std::erase_if(*status_.slots, [&](const auto& entry) { return entry.pod == attempt.pod; });
        note_trouble(snapshot_, attempt, status_);
        if (told != nullptr) *told = std::move(attempt);
      } else if (!is_infrastructure(attempt)) {
        add_restart(std::move(attempt));
      }
      slot.state = SlotState::kEmpty;
      any = true;
    }
    if (any) begin_round();
  }

  // Nobody waits for what was lost.
  bool gang_is_whole() const {
    const auto& members = snapshot_.view->members;
    return job_.spec.spares > 0 && std::count_if(members.begin(), members.end(),
                                                 [](const auto& member) { return member.in_gang; }) >= job_.spec.nodes;
  }

  // The death of a spare is charged to nobody, and so must not happen again and again in a hurry.
  void replace_spare(SlotView& slot, bool& any) {
    const bool failed = slot.cause == Cause::kPodFailed || slot.cause == Cause::kOomKilled;
    if (failed) {
      const auto not_before = slot.pod->meta.created.value_or(snapshot_.now) + kSpareEvery;
      if (snapshot_.now < not_before) return plan_.look_again_in(not_before - snapshot_.now);
    }
    // Of a slot without a pod nobody knows whether it had one.
    if (slot.pod != nullptr) {
      plan_.events.push_back({true, word(slot.cause), "Replace", slot.message.substr(0, slot.message.find('\n'))});
    }
    slot.state = SlotState::kEmpty;
    any = true;
  }

  // A pod that looks well, and whose agent the others went on without, is made anew when it does not come back.
  void replace_silent(const SlotView& slot) {
    const auto* member = snapshot_.view->member_of(slot.slot);
    const auto* silence = find_silence(status_, slot);
    if ((member != nullptr && member->connected) || silence == nullptr || !silence->since) return;
    const auto left = time_left(snapshot_.now, *silence->since, kSilence);
    if (left > Duration::zero()) return plan_.look_again_in(left);
    delete_pods(snapshot_, {slot.pod}, "its agent is silent", plan_);
  }

  // No event tells when a silence on a node that is not ready has been long enough.
  void look_again_at_silent() {
    const bool waits = std::any_of(gang_.slots.begin(), gang_.slots.end(), [this](const SlotView& slot) {
      return slot.state == SlotState::kLive && silent_on_dead_node(snapshot_, *slot.pod);
    });
    if (waits) plan_.look_again_in(std::chrono::seconds(1));
  }

  void run_pods() {
    const auto delay = restart_delay(job_.spec, status_.restarts);
    const auto* last = status_.attempts.empty() ? nullptr : &status_.attempts.back();
    const bool repairing =
        api::is_true(status_.conditions, "Restarting") || (api::may_leave_out(job_.spec) && !gang_.all_placed());
    const bool restarting = repairing && last != nullptr && last->end_time;
    const auto release = snapshot_.now + (restarting ? time_left(snapshot_.now, *last->end_time, delay) : Duration{});
    const bool held = snapshot_.now < release;
    plan_pods(snapshot_, gang_, status_.incarnation, release, plan_);
    plan_.coordinator = job_plan(snapshot_, gang_, status_);
    if (held && last->strategy == Strategy::kInPlace) {
      plan_.coordinator->handled_generation = last->generation - 1;
      plan_.look_again_in(release - snapshot_.now);
    }
    if (snapshot_.settling) plan_.look_again_in(std::chrono::seconds(1));
    look_again_at_silent();
  }

  void succeed() {
    Attempt attempt = new_attempt(Cause::kCompleted, "every rank ended with 0");
    append_attempt(status_, std::move(attempt));
    finish(snapshot_, status_, plan_, true, word(Cause::kCompleted), "every rank ended with 0");
  }

  void fail(Cause cause, const std::string& reason, const std::string& message) {
    append_attempt(status_, new_attempt(cause, message));
    status_.restarts.last_cause = cause;
    finish(snapshot_, status_, plan_, false, reason, message);
  }

  void miss_startup(const std::optional<Blocker>& blocker) {
    const auto seconds = job_.spec.deadlines.startup_seconds;
    if (blocker)
      return fail(Cause::kNotStarted, blocker->reason,
                  fmt::format("not started within deadlines.startupSeconds ({}) after enough pods were placed: {}",
                              seconds, blocker->message));
    fail(Cause::kNotStarted, "StartupDeadlineExceeded",
         fmt::format("not started within deadlines.startupSeconds ({}) after enough pods were placed: still {}",
                     seconds, waiting_for(snapshot_, gang_)));
  }

 public:
  const Survey& gang() const { return gang_; }

 private:
  const Snapshot& snapshot_;
  const api::TrainingJob& job_;
  api::TrainingJobStatus& status_;
  Plan& plan_;
  Survey gang_;
};

}  // namespace

Plan decide(const Snapshot& snapshot) {
  if (!snapshot.job->status.slots) return decide(with_troubles(snapshot));
  Plan plan;
  const auto& job = *snapshot.job;
  if (is_finished(job.status)) {
    if (!job.meta.deleted) clean_up(snapshot, plan);
    return plan;
  }
  if (job.meta.deleted) {
    // The garbage collector takes the pods; nothing may be created any more (foreground deletion would never end).
    plan.coordinator = job_plan(snapshot, survey(snapshot), job.status);
    plan.coordinator->stop = true;
    return plan;
  }
  api::TrainingJobStatus status = job.status;
  fill_in(snapshot, status);
  forget_troubles(snapshot, status);
  if (apply_suspend(snapshot, status, plan) || apply_hold(snapshot, status, plan)) {
    count(snapshot, survey(snapshot), status);
    settle(snapshot, std::move(status), plan);
    return plan;
  }
  status.incarnation = std::clamp<std::int64_t>(status.incarnation, 1, kMostIncarnation);
  status.incarnation = std::max(status.incarnation, known_incarnation(snapshot));
  Running running(snapshot, status, plan);
  running.decide();
  count(snapshot, running.gang(), status);
  tell_divergence(snapshot, status, plan);
  settle(snapshot, std::move(status), plan);
  return plan;
}

}  // namespace lockstep::job
