#include "operator/job/job_status.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "operator/api/cause.h"
#include "operator/job/placement_policy.h"
#include "operator/job/restart_policy.h"
#include "operator/job/time_left.h"

namespace lockstep::job {
namespace {

constexpr const char* kTypes[] = {"Placed", "Running", "Restarting", "Suspended", "Succeeded", "Failed"};

// Of a job that does not say: a program of which nothing is known but its progress may rest for longer between two
// steps.
constexpr int kProgressSeconds = 10;

rendezvous::Kind to_coordinator(api::RendezvousKind kind) {
  switch (kind) {
    case api::RendezvousKind::kLockstep:
      return rendezvous::Kind::kLockstep;
    case api::RendezvousKind::kTorch:
      return rendezvous::Kind::kTorch;
    case api::RendezvousKind::kNone:
      return rendezvous::Kind::kNone;
  }
  return rendezvous::Kind::kNone;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

void take_recovery_times(const rendezvous::JobView& view, api::TrainingJobStatus& status) {
  // The first with that number: one that follows is of a pod that no generation had, and nobody waited for that.
  const auto ended = std::find_if(status.attempts.begin(), status.attempts.end(), [&](const api::Attempt& attempt) {
    return attempt.generation > 0 && attempt.generation == view.times.after;
  });
  if (ended == status.attempts.end() || view.generation <= ended->generation) return;
  const auto take = [](std::int64_t& to, std::int64_t from) {
    if (to < 0) to = from;
  };
  take(ended->agree_ms, view.times.agree_ms);
  take(ended->decide_ms, view.times.decide_ms);
  take(ended->abort_ms, view.times.abort_ms);
  take(ended->record_ms, view.times.record_ms);
  take(ended->start_ms, view.times.start_ms);
  take(ended->init_ms, view.times.init_ms);
  take(ended->transfer_ms, view.times.transfer_ms);
  take(ended->first_step_ms, view.times.first_step_ms);
}

std::string decimal(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : std::string("NaN");
}

std::int64_t whole(double value) {
  constexpr double kMost = 9e15;  // integers of the API stay within 2^53
  return std::isfinite(value) ? static_cast<std::int64_t>(std::clamp(value, 0.0, kMost)) : 0;
}

void take_progress(const Snapshot& snapshot, api::TrainingJobStatus& status) {
  const auto& view = *snapshot.view;
  const bool speaks = view.phase == rendezvous::Phase::kUp || view.phase == rendezvous::Phase::kFinished;
  if (!speaks || view.progress == rendezvous::Progress{}) return;
  api::ProgressStatus next;
  next.step = view.progress.step;
  next.total_steps = view.progress.total_steps;
  next.epoch = view.progress.epoch;
  next.loss = decimal(view.progress.loss, "{:.5g}");
  next.samples_per_second = decimal(view.progress.samples_per_second, "{:.1f}");
  if (next.total_steps > 0) {
    const double share = static_cast<double>(next.step) / static_cast<double>(next.total_steps);
    next.percentage = static_cast<std::int32_t>(std::clamp(share * 100.0, 0.0, 100.0));
  }
  next.eta_seconds = whole(view.progress.eta_seconds);
  if (status.progress) next.last_update = status.progress->last_update;
  if (status.progress && next == *status.progress) return;
  next.last_update = whole_seconds(snapshot.now);
  status.progress = std::move(next);
}

static_assert(placement::Where::kMostNamed <= api::kMostDomains, "the API server refuses more");

void take_placement(const Snapshot& snapshot, api::TrainingJobStatus& status) {
  if (!snapshot.placing) {
    status.placement.reset();
    return;
  }
  if (!snapshot.placing->answer) return;  // nothing is decided, or no nodes are wanted
  const auto& where = snapshot.placing->answer->where;
  if (!where) {
    status.placement.reset();
    return;
  }
  status.placement = api::PlacementStatus{
      .domains = where->domains, .level_spanned = snapshot.placing->spanned, .score = decimal(where->score, "{:.6g}")};
}

// Members that are there and that the gang does not need: those beside a generation, or beyond the size of one.
int count_spares(const Snapshot& snapshot, const Survey& survey) {
  int outside = 0, inside = 0;
  for (const auto& slot : survey.slots) {
    const auto* member = snapshot.view ? snapshot.view->member_of(slot.slot) : nullptr;
    if (slot.state != SlotState::kLive || member == nullptr || member->incarnation != slot.incarnation) continue;
    if (member->connected) ++(member->in_gang ? inside : outside);
  }
  // Places of the gang that are free are filled from outside first.
  return std::clamp(inside + outside - snapshot.job->spec.nodes, 0, outside);
}

// The status without what is written at most once a second, or with progress.
api::TrainingJobStatus hard_part(api::TrainingJobStatus status) {
  for (auto& condition : status.conditions) condition.message.clear();
  status.nodes = {.desired = status.nodes.desired};
  status.progress.reset();
  for (auto& attempt : status.attempts) attempt.first_step_ms = -1;
  return status;
}

}  // namespace

Duration progress_interval(std::size_t running_jobs) {
  const Duration of_budget =
      std::chrono::seconds(1) * static_cast<std::int64_t>(running_jobs) / kProgressWritesPerSecond;
  return std::max<Duration>(kProgressEvery, of_budget);
}

WallTime whole_seconds(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time);
}

void set_condition(const Snapshot& snapshot, api::TrainingJobStatus& status, const std::string& type, bool value,
                   const std::string& reason, const std::string& message) {
  constexpr size_t kMostMessage = 4096;
  api::set_condition(status.conditions,
                     {.type = type,
                      .status = value ? "True" : "False",
                      .reason = reason,
                      .message = message.substr(0, kMostMessage),
                      .observed_generation = snapshot.job->meta.generation,
                      .last_transition = {}},
                     whole_seconds(snapshot.now));
}

void fill_in(const Snapshot& snapshot, api::TrainingJobStatus& status) {
  const auto& job = *snapshot.job;
  status.observed_generation = job.meta.generation;
  for (const char* type : kTypes) {
    if (api::find_condition(status.conditions, type) == nullptr) {
      set_condition(snapshot, status, type, false, "Created", "the job was created");
    }
  }
  for (auto& condition : status.conditions) condition.observed_generation = job.meta.generation;
  status.procs_per_node = api::resolved_procs_per_node(job.spec);
  const bool formed = snapshot.view && snapshot.view->world_size > 0;
  status.world_size = formed ? snapshot.view->world_size : job.spec.nodes * status.procs_per_node;
  if (!status.restarts.window) recall_restarts(job.spec, status.attempts, snapshot.now, status.restarts);
  status.selector = fmt::format("{}={}", api::kLabelJobUid, job.meta.uid);
}

void append_attempt(api::TrainingJobStatus& status, api::Attempt attempt) {
  status.attempts.push_back(std::move(attempt));
  if (status.attempts.size() > kStoredAttempts) {
    status.attempts.erase(status.attempts.begin(),
                          status.attempts.end() - static_cast<std::ptrdiff_t>(kStoredAttempts));
  }
}

std::int64_t handled_generation(const api::TrainingJobStatus& status) {
  std::int64_t newest = 0;
  for (const auto& attempt : status.attempts) {
    if (attempt.cause != api::Cause::kCompleted) newest = std::max(newest, attempt.generation);
  }
  return newest;
}

void finish(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan, bool succeeded,
            const std::string& reason, const std::string& message) {
  const char* type = succeeded ? "Succeeded" : "Failed";
  set_condition(snapshot, status, "Running", false, type, message);
  set_condition(snapshot, status, "Restarting", false, type, message);
  set_condition(snapshot, status, type, true, reason, message);
  status.completion_time = whole_seconds(snapshot.now);
  plan.events.push_back({!succeeded, succeeded ? "Succeeded" : reason, "Finish", first_line(message)});
}

namespace {

rendezvous::ExpectedMember to_member(const Snapshot& snapshot, const api::Pod& pod, const PodIdentity& identity,
                                     bool leaving) {
  const auto node = snapshot.nodes.find(pod.node_name);
  return {.slot = identity.slot,
          .incarnation = identity.incarnation,
          .pod_name = pod.meta.name,
          .pod_uid = pod.meta.uid,
          .node = pod.node_name,
          .leaving = leaving,
          .path = node == snapshot.nodes.end() ? std::vector<std::string>() : node->second->path};
}

// The pod should have gone long ago: its successor waits no longer.
bool is_overdue(const Snapshot& snapshot, const api::Pod& pod) {
  return pod.meta.deleted && *pod.meta.deleted + kLeaveOverdue <= snapshot.now;
}

// By slot. Where a pod that leaves is still there, the one that is to follow it has to wait.
std::vector<rendezvous::ExpectedMember> expected_members(const Snapshot& snapshot, const Survey& survey) {
  std::map<int, rendezvous::ExpectedMember> members;
  for (const auto& slot : survey.slots) {
    if (slot.usable()) members[slot.slot] = to_member(snapshot, *slot.pod, {slot.slot, slot.incarnation}, false);
  }
  const auto add = [&](const std::vector<const api::Pod*>& pods, bool leaving) {
    for (const api::Pod* pod : pods) {
      const auto identity = *identity_of(pod->meta);
      const auto known = members.find(identity.slot);
      if (leaving && known != members.end() && is_overdue(snapshot, *pod)) continue;
      // Of several that leave the oldest may still train.
      const bool older = known != members.end() && known->second.incarnation < identity.incarnation;
      if (!pod->terminal() && !(leaving && known != members.end() && known->second.leaving && older))
        members[identity.slot] = to_member(snapshot, *pod, identity, leaving);
    }
  };
  add(survey.surplus, false);
  add(survey.released, true);
  std::vector<rendezvous::ExpectedMember> list;
  for (auto& [slot, member] : members) list.push_back(std::move(member));
  return list;
}

// "of 4 pods, those of slots 1, 3 are not bound to nodes"; "" when all are.
std::string unbound_slots(const Survey& survey) {
  constexpr std::size_t kNamed = 8;
  std::vector<int> slots;
  for (const SlotView& slot : survey.slots) {
    if (!slot.usable() || slot.pod->node_name.empty()) slots.push_back(slot.slot);
  }
  if (slots.empty()) return "";
  const std::size_t named = std::min(slots.size(), kNamed);
  std::string text =
      fmt::format("of {} pods, {} {}", survey.slots.size(), slots.size() == 1 ? "that of slot" : "those of slots",
                  fmt::join(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  if (slots.size() > named) text += fmt::format(" and {} more", slots.size() - named);
  return text + (slots.size() == 1 ? " is not bound to a node" : " are not bound to nodes");
}

// Pods that are bound to nodes and that the plan does not delete.
int placed_after(const Survey& survey, const Plan& plan) {
  return static_cast<int>(std::count_if(survey.slots.begin(), survey.slots.end(), [&](const SlotView& slot) {
    if (!slot.usable() || slot.pod->node_name.empty()) return false;
    return std::none_of(plan.deletes.begin(), plan.deletes.end(),
                        [&](const PodToDelete& removal) { return removal.uid == slot.pod->meta.uid; });
  }));
}

// Of pods that nothing is known to keep from their nodes. Why they are new stays the reason until all are bound: what
// reads PodsPending is a gang that had none before.
std::string reason_of_pending(const api::TrainingJobStatus& status) {
  const auto* before = api::find_condition(status.conditions, "Placed");
  const bool tells = before != nullptr && (before->reason == "Replacing" || before->reason == "ScalingUp");
  return tells ? before->reason : "PodsPending";
}

}  // namespace

rendezvous::JobPlan job_plan(const Snapshot& snapshot, const Survey& survey, const api::TrainingJobStatus& status) {
  const auto& job = *snapshot.job;
  rendezvous::JobPlan plan;
  plan.name_space = job.meta.name_space;
  plan.name = job.meta.name;
  plan.uid = job.meta.uid;
  plan.kind = to_coordinator(job.spec.rendezvous.kind);
  plan.slots = job.spec.nodes;
  plan.spares = job.spec.spares;
  if (job.spec.elastic) {
    plan.elastic = {.min_slots = job.spec.elastic->min_nodes,
                    .stabilization_seconds = job.spec.elastic->stabilization_seconds};
  }
  plan.procs_per_node = api::resolved_procs_per_node(job.spec);
  plan.port = job.spec.rendezvous.port;
  plan.program.max_restarts = job.spec.restart.max_restarts;
  for (const auto& [name, value] : job.spec.rendezvous.env.items()) {
    plan.program.env[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  plan.program.checkpoint_path = job.spec.checkpoint.path;
  plan.program.checkpoint_every_seconds = job.spec.checkpoint.every_seconds;
  plan.members = expected_members(snapshot, survey);
  plan.handled_generation = handled_generation(status);
  const auto& deadlines = job.spec.deadlines;
  plan.deadlines = {.start_timeout_seconds = deadlines.startup_seconds,
                    .progress_seconds = deadlines.progress_seconds.value_or(kProgressSeconds),
                    .watch_reports = deadlines.progress_seconds.has_value()};
  plan.stop_grace_seconds = job.spec.checkpoint.grace_period_seconds;
  return plan;
}

rendezvous::JobPlan stop_plan(const Snapshot& snapshot, const api::TrainingJobStatus& status) {
  const Survey survey = job::survey(snapshot);
  rendezvous::JobPlan plan = job_plan(snapshot, survey, status);
  plan.stop = plan.goes_on = true;
  std::set<int> known;
  for (const auto& member : plan.members) known.insert(member.slot);
  for (const SlotView& slot : survey.slots) {
    const bool may_tell = slot.pod != nullptr && !slot.usable() && !slot.pod->terminal();
    if (!may_tell || known.count(slot.slot) != 0 || lost_with_node(snapshot, *slot.pod)) continue;
    plan.members.push_back(to_member(snapshot, *slot.pod, {slot.slot, slot.incarnation}, false));
  }
  return plan;
}

void describe(const Snapshot& snapshot, const Survey& survey, const std::optional<Blocker>& blocker,
              api::TrainingJobStatus& status, Plan& plan) {
  const auto& view = snapshot.view;
  const bool replacing = is_replacing(snapshot, survey);
  if (survey.all_placed() && !replacing) {
    std::string sentence = "every pod is bound to a node";
    if (!snapshot.why_not_placing.empty()) {
      sentence += "; kube-scheduler chose the nodes, because " + snapshot.why_not_placing;
    }
    set_condition(snapshot, status, "Placed", true, "AllPodsPlaced", sentence);
  } else if (replacing || !all_were_placed(status)) {
    const auto wait = blocker && blocker->placement ? blocker : find_placement_wait(snapshot);
    std::string reason = wait ? wait->reason : replacing ? "Replacing" : reason_of_pending(status);
    std::string why = wait ? wait->message : replacing ? "pods that never ran are created again" : "";
    std::string message = why.empty() ? unbound_slots(survey) : why;
    const bool gang_placed = snapshot.job->spec.spares > 0 && placed_after(survey, plan) >= snapshot.job->spec.nodes;
    if (gang_placed) {
      reason = kGangPlaced;
      message = "as many pods as train are bound to nodes";
      for (const std::string& more : {unbound_slots(survey), why}) {
        if (!more.empty()) message += "; " + more;
      }
    }
    set_condition(snapshot, status, "Placed", gang_placed, reason, message);
  }

  if (view && view->phase == rendezvous::Phase::kUp && view->generation > handled_generation(status)) {
    const bool was_running = api::is_true(status.conditions, "Running");
    const bool restarted = api::is_true(status.conditions, "Restarting");
    auto sentence = fmt::format("generation {} runs with {} ranks", view->generation, status.world_size);
    if (!view->message.empty()) sentence += "; " + view->message;
    set_condition(snapshot, status, "Running", true, "AllRanksUp", sentence);
    set_condition(snapshot, status, "Restarting", false, "Running", sentence);
    if (!status.start_time) status.start_time = whole_seconds(snapshot.now);
    if (!was_running) plan.events.push_back({false, restarted ? "Recovered" : "Running", "Start", sentence});
    return;
  }
  // A new leader's coordinator has to meet the members again; they train on meanwhile.
  if (api::is_true(status.conditions, "Running")) return;
  if (blocker) {
    const auto* before = api::find_condition(status.conditions, "Running");
    if (before == nullptr || before->reason != blocker->reason) {
      plan.events.push_back({true, blocker->reason, "Start", first_line(blocker->message)});
    }
    set_condition(snapshot, status, "Running", false, blocker->reason, blocker->message);
  } else if (api::is_true(status.conditions, "Restarting")) {
    const auto* restarting = api::find_condition(status.conditions, "Restarting");
    set_condition(snapshot, status, "Running", false, restarting->reason, waiting_for(snapshot, survey));
  } else {
    set_condition(snapshot, status, "Running", false, "Starting", waiting_for(snapshot, survey));
  }
}

void count(const Snapshot& snapshot, const Survey& survey, api::TrainingJobStatus& status) {
  const auto& spec = snapshot.job->spec;
  const int desired = spec.nodes;
  const int ready = std::min(survey.ready(), desired);  // spares are not counted
  status.nodes = {.desired = desired,
                  .ready = ready,
                  .min = api::fewest_nodes(spec),
                  .max = spec.elastic ? spec.elastic->max_nodes : std::nullopt,
                  .spare = spec.spares > 0 ? std::optional(count_spares(snapshot, survey)) : std::nullopt,
                  .summary = fmt::format("{}/{}", ready, desired)};
  if (snapshot.view) {
    // While it is only proposed, a generation may still come to nothing.
    if (snapshot.view->phase != rendezvous::Phase::kProposing) {
      status.membership_generation = std::max(status.membership_generation, snapshot.view->generation);
    }
    take_recovery_times(*snapshot.view, status);
    take_progress(snapshot, status);
  }
  take_placement(snapshot, status);
  status.state = state_word(status);
}

void tell_divergence(const Snapshot& snapshot, api::TrainingJobStatus& status, Plan& plan) {
  constexpr const char* kType = "ReplicaDivergence";
  if (!snapshot.view || snapshot.view->divergence.empty()) return;
  const std::string& sentence = snapshot.view->divergence;
  const auto* before = api::find_condition(status.conditions, kType);
  if (before != nullptr && before->message == sentence) return;
  set_condition(snapshot, status, kType, true, "DigestsDiffer", sentence);
  plan.events.push_back({true, kType, "Recover", sentence});
}

std::string state_word(const api::TrainingJobStatus& status) {
  for (const char* type : {"Failed", "Succeeded", "Suspended", "Restarting", "Running"}) {
    if (api::is_true(status.conditions, type)) return type;
  }
  return api::is_true(status.conditions, "Placed") ? "Starting" : "Pending";
}

void settle(const Snapshot& snapshot, api::TrainingJobStatus status, Plan& plan) {
  const auto& stored = snapshot.job->status;
  if (status == stored) {
    plan.events.clear();
    return;
  }
  if (hard_part(status) == hard_part(stored)) {
    api::TrainingJobStatus without_progress = status;
    without_progress.progress = stored.progress;
    const bool only_progress = without_progress == stored;
    Duration wait{};
    if (only_progress && stored.progress && stored.progress->last_update) {
      wait = time_left(snapshot.now, *stored.progress->last_update, snapshot.progress_every);
    } else if (!only_progress && snapshot.last_status_write) {
      wait = time_left(snapshot.now, *snapshot.last_status_write, kStatusEvery);
    }
    if (wait > Duration::zero()) {
      plan.look_again_in(wait);
      plan.events.clear();
      return;
    }
  }
  plan.status = std::move(status);
}

}  // namespace lockstep::job
