#include "operator/job/reconciler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "operator/base/log.h"
#include "operator/cache/store.h"
#include "operator/job/decide.h"
#include "operator/job/finish_policy.h"
#include "operator/job/job_status.h"

namespace lockstep::job {
namespace {

// As long as the controller waits for the same; an event of the write adds the key before.
constexpr Duration kOwnWriteWait = std::chrono::milliseconds(250);

// Placement needs an answer of the API server that did not come.
constexpr Duration kAskPlacementAgain = std::chrono::seconds(1);

using api::Json;

// After a batch failed: 50 ms, doubling.
constexpr Duration kFirstBackoff = std::chrono::milliseconds(50);
constexpr Duration kMostBackoff = std::chrono::seconds(30);

Duration backoff_after(int failures) {
  return failures > 10 ? kMostBackoff : std::min(kMostBackoff, kFirstBackoff * (1 << (failures - 1)));
}

// A job that has trained is waited for by the pods that are left.
Executor::Priority priority_of(const api::TrainingJob& job) {
  const bool repair = job.status.start_time && !is_finished(job.status) && !job.spec.suspend;
  return repair ? Executor::Priority::kRepair : Executor::Priority::kBulk;
}

Counter& attempts_of(api::Cause cause, MetricsRegistry& metrics) {
  return metrics.counter("lockstep_attempts_total", "Attempts of jobs that ended, by cause.",
                         {{"cause", std::string(api::name_of(cause))}});
}

Histogram& seconds_of(const api::RecoveryPhase& phase, MetricsRegistry& metrics) {
  static const std::vector<double> kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                              1,     2,     5,     10,   20,   50,   100, 200, 500};
  return metrics.histogram("lockstep_recovery_phase_seconds", "Seconds that a phase of a recovery took.",
                           {{"phase", phase.name}}, kBounds);
}

}  // namespace

Reconciler::Reconciler(kube::Api& api, const Caches& caches, rendezvous::Coordinator& coordinator,
                       control::OwnWrites& own_writes, Executor& executor, Clock& clock, MetricsRegistry& metrics,
                       ReconcilerOptions options, SendEvent send_event)
    : api_(api),
      caches_(caches),
      coordinator_(coordinator),
      own_writes_(own_writes),
      executor_(executor),
      clock_(clock),
      metrics_(metrics),
      options_(std::move(options)),
      send_event_(std::move(send_event)),
      started_(clock.now()),
      pods_created_(metrics.counter("lockstep_pods_created_total", "Pods that were created.")),
      pods_deleted_(metrics.counter("lockstep_pods_deleted_total", "Pods that were deleted.")),
      agent_(options_.agent) {
  // Prometheus sees no increase in a series that begins at 1, so each begins at 0.
  for (const api::Cause cause : api::all_causes()) attempts_of(cause, metrics_);
  for (const api::RecoveryPhase& phase : api::kRecoveryPhases) seconds_of(phase, metrics_);
}

Result<std::optional<Duration>> Reconciler::reconcile(const api::ObjectKey& key) {
  if (executor_.busy(key)) return std::optional<Duration>();
  // A batch that ended since the controller asked has left writes that the caches may not show yet.
  if (!own_writes_.ready(key)) return std::optional<Duration>(kOwnWriteWait);
  Memory memory = recall(key);
  if (auto taken = take_outcome(key, memory); !taken) return taken.error();
  auto snapshot = gather(caches_, key);
  if (!snapshot || (!memory.uid.empty() && memory.uid != snapshot->job->meta.uid)) {
    if (!memory.uid.empty()) coordinator_.forget_job(memory.uid);
    if (options_.placement != nullptr) options_.placement->forget(memory.uid);
    forget(key);
    memory = {};
    if (!snapshot) return std::optional<Duration>();
  }
  memory.uid = snapshot->job->meta.uid;
  snapshot->view = coordinator_.view(memory.uid);
  snapshot->create_problem = memory.create_problem;
  snapshot->last_status_write = memory.last_status_write;
  memory.runs = snapshot->view && snapshot->view->phase == rendezvous::Phase::kUp;
  snapshot->progress_every = progress_interval(running());
  snapshot->settling = clock_.now() - started_ < options_.settle;
  snapshot->reconnecting = clock_.now() - started_ < options_.reconnect;
  snapshot->now = clock_.wall_now();
  snapshot->failure_age = failure_age(*snapshot, memory);
  look_for_sick(*snapshot);
  look_for_dead(*snapshot);
  const bool asked = ask_placement(*snapshot);
  Plan plan = decide(*snapshot);
  if (!asked) plan.look_again_in(kAskPlacementAgain);
  auto result = execute(*snapshot, std::move(plan), memory);
  remember(key, std::move(memory));
  return result;
}

bool Reconciler::ask_placement(Snapshot& snapshot) {
  if (options_.placement == nullptr) return true;
  auto placing = options_.placement->ask(snapshot);
  if (placing) {
    snapshot.placing = *std::move(placing);
    if (!snapshot.placing) snapshot.why_not_placing = options_.placement->why_not(*snapshot.job);
    return true;
  }
  log::warn("placement could not be asked, and will be again",
            {{"job", snapshot.job->meta.key().text()}, {"error", placing.error().message}});
  snapshot.placing.emplace();
  return false;
}

void Reconciler::look_for_sick(Snapshot& snapshot) const {
  if (options_.sickness == nullptr) return;
  const std::size_t nodes = caches_.nodes->size();
  for (const auto& pod : snapshot.pods) {
    const auto seen = pod->node_name.empty() ? std::nullopt : options_.sickness->find(pod->node_name, nodes);
    if (!seen) continue;
    std::string sign = pod->unhealthy_device.empty() ? "" : pod->unhealthy_device + " is Unhealthy";
    const auto node = snapshot.nodes.find(pod->node_name);
    if (sign.empty() && node != snapshot.nodes.end() && !node->second->sickness.empty()) {
      sign = "the node has " + node->second->sickness;
    }
    if (sign.empty()) continue;  // another pod of the node is the sick one
    // Without their number, which grows: each would be another event.
    std::string doubt =
        seen->many ? fmt::format("more than {} % of all nodes became sick together", 100 / SicknessWatch::kOneIn) : "";
    snapshot.sick_pods[pod->meta.name] = {std::move(sign), seen->age, std::move(doubt)};
  }
}

void Reconciler::look_for_dead(Snapshot& snapshot) const {
  if (options_.deaths == nullptr) return;
  const std::size_t nodes = caches_.nodes->size();
  for (const auto& [name, node] : snapshot.nodes) {
    const auto seen = node->death.empty() ? std::nullopt : options_.deaths->find(name, nodes);
    if (seen && !seen->many) snapshot.dead_nodes[name] = node->death;
  }
}

Duration Reconciler::failure_age(const Snapshot& snapshot, Memory& memory) const {
  if (!snapshot.view || !snapshot.view->failure) {
    memory.failure.reset();
    return {};
  }
  const auto& failure = *snapshot.view->failure;
  const auto now = clock_.now();
  auto& seen = memory.failure;
  if (!seen || seen->generation != failure.generation || seen->time != failure.time) {
    const auto age = std::max<Duration>(snapshot.now - failure.time, Duration::zero());
    seen = FailureSeen{failure.generation, failure.time, now - age};
  }
  return now - seen->at;
}

Result<std::optional<Duration>> Reconciler::execute(const Snapshot& snapshot, Plan plan, Memory& memory) {
  const auto& job = *snapshot.job;
  if (plan.delete_job) {
    auto removed = api_.remove(kube::kTrainingJobs, job.meta.name_space, job.meta.name, {.uid = job.meta.uid});
    if (!removed && removed.error().code != ErrorCode::kNotFound) return removed.error();
    return std::optional<Duration>();
  }
  if (plan.status) {
    LOCKSTEP_CHECK_OK(write_status(job, *plan.status));
    memory.last_status_write = snapshot.now;
    count_changes(job, *plan.status);
    for (const auto& event : plan.events) send_event_(job, event);
  }
  if (plan.notice && plan.notice != memory.notice) send_event_(job, *plan.notice);
  memory.notice = plan.notice;
  if (plan.forget) coordinator_.forget_job(job.meta.uid);
  if (plan.coordinator) coordinator_.set_job(*plan.coordinator);

  if (!plan.writes_children()) return plan.requeue_after;
  if (const auto now = clock_.now(); now < memory.next_batch) {
    plan.look_again_in(memory.next_batch - now);
    return plan.requeue_after;
  }
  start_batch(snapshot, plan, memory);
  // Where the executor has done it by now.
  const bool refused_before = memory.create_problem.has_value();
  const int failed_before = memory.failed_batches;
  LOCKSTEP_CHECK_OK(take_outcome(job.meta.key(), memory));
  if (memory.create_problem || refused_before) plan.look_again_in(Duration::zero());  // it becomes a condition
  if (memory.failed_batches > failed_before) plan.look_again_in(memory.next_batch - clock_.now());
  return plan.requeue_after;
}

Status Reconciler::write_status(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  const Json object{{"apiVersion", kube::kTrainingJobs.api_version()},
                    {"kind", kube::kTrainingJobs.kind},
                    {"metadata",
                     {{"name", job.meta.name},
                      {"namespace", job.meta.name_space},
                      {"uid", job.meta.uid},
                      {"resourceVersion", job.meta.resource_version}}},
                    {"spec", api::to_json(job.spec)},
                    {"status", api::to_json(status)}};
  LOCKSTEP_TRY(const auto written,
               api_.replace(kube::kTrainingJobs, job.meta.name_space, job.meta.name, object, "status"));
  own_writes_.wrote(job.meta.key(), kJobCache, resource_version_of(written));
  return {};
}

void Reconciler::start_batch(const Snapshot& snapshot, const Plan& plan, const Memory& memory) {
  const ChildWrites::Tools tools{api_, own_writes_, clock_, pods_created_, pods_deleted_};
  const ChildWrites::Placement placement{
      .gives =
          [this, uid = snapshot.job->meta.uid](const PodToCreate& pod) {
            return options_.placement != nullptr && options_.placement->gives(uid, pod.slot, pod.node);
          },
      .open =
          [this, uid = snapshot.job->meta.uid](const placement::Opening& opening) {
            return options_.placement != nullptr && options_.placement->open(uid, opening);
          },
      .opened =
          [this](const placement::Opening& opening, const std::string& uid, const std::optional<std::string>& version) {
            if (options_.placement != nullptr) options_.placement->opened(opening, uid, version);
          },
  };
  const auto writes = std::make_shared<ChildWrites>(
      tools, [this] { return agent_settings(); }, placement, memory.run_as_non_root, snapshot.job, plan);
  const auto key = snapshot.job->meta.key();
  executor_.submit({.key = key,
                    .priority = priority_of(*snapshot.job),
                    .count = writes->count(),
                    .write = [writes](std::size_t i) { return writes->write(i); },
                    .barriers = writes->barriers(),
                    .done =
                        [this, key, writes](const std::optional<Error>& error) {
                          auto outcome = writes->outcome();
                          if (error && !outcome.refusal && !outcome.error) outcome.error = error;
                          const std::lock_guard guard(mutex_);
                          outcomes_[key] = std::move(outcome);
                        }});
}

Status Reconciler::take_outcome(const api::ObjectKey& key, Memory& memory) {
  std::optional<ChildWrites::Outcome> outcome;
  {
    const std::lock_guard guard(mutex_);
    const auto found = outcomes_.find(key);
    if (found == outcomes_.end()) return {};
    outcome = std::move(found->second);
    outcomes_.erase(found);
  }
  memory.run_as_non_root = outcome->run_as_non_root;
  if (outcome->refusal) {
    outcome->refusal->times = memory.create_problem ? memory.create_problem->times + 1 : 1;
    memory.create_problem = std::move(outcome->refusal);
  } else if (outcome->created) {
    memory.create_problem.reset();
  }
  if (!outcome->error) {
    memory.failed_batches = 0;
    return {};
  }
  const Error& error = *outcome->error;
  if (error.code == ErrorCode::kCancelled) return error;
  const Duration wait = backoff_after(++memory.failed_batches);
  memory.next_batch = clock_.now() + wait;
  log::warn("writing the pods of a job failed and will be tried again",
            {{"job", key.text()}, {"error", error.message}});
  return {};
}

// Each phase once, when it is known.
void Reconciler::observe_phases(const api::Attempt& before, const api::Attempt& attempt) {
  for (const api::RecoveryPhase& phase : api::kRecoveryPhases) {
    if (before.*phase.ms >= 0 || attempt.*phase.ms < 0) continue;
    seconds_of(phase, metrics_).observe(static_cast<double>(attempt.*phase.ms) / 1000);
  }
}

void Reconciler::count_changes(const api::TrainingJob& job, const api::TrainingJobStatus& status) {
  const auto& known = job.status.attempts;
  for (const api::Attempt& attempt : status.attempts) {
    const auto before = std::find_if(known.begin(), known.end(), [&](const api::Attempt& old) {
      return old.generation == attempt.generation && old.end_time == attempt.end_time && old.pod == attempt.pod;
    });
    const bool is_new = before == known.end();
    observe_phases(is_new ? api::Attempt{} : *before, attempt);
    if (!is_new) continue;
    attempts_of(attempt.cause, metrics_).increment();
    log::info("attempt ended", {{"job", job.meta.key().text()},
                                {"generation", std::to_string(attempt.generation)},
                                {"cause", attempt.cause.text()},
                                {"strategy", attempt.strategy.text()}});
  }
}

void Reconciler::set_agent(const AgentSettings& agent) {
  const std::lock_guard guard(mutex_);
  agent_ = agent;
}

AgentSettings Reconciler::agent_settings() {
  const std::lock_guard guard(mutex_);
  return agent_;
}

Reconciler::Memory Reconciler::recall(const api::ObjectKey& key) {
  const std::lock_guard guard(mutex_);
  const auto known = memory_.find(key);
  return known == memory_.end() ? Memory{} : known->second;
}

void Reconciler::remember(const api::ObjectKey& key, Memory memory) {
  const std::lock_guard guard(mutex_);
  Memory& known = memory_[key];
  running_ = running_ - (known.runs ? 1 : 0) + (memory.runs ? 1 : 0);
  known = std::move(memory);
}

std::size_t Reconciler::running() const {
  const std::lock_guard guard(mutex_);
  return running_;
}

void Reconciler::forget(const api::ObjectKey& key) {
  own_writes_.forget(key);
  const std::lock_guard guard(mutex_);
  if (const auto known = memory_.find(key); known != memory_.end()) {
    running_ -= known->second.runs ? 1 : 0;
    memory_.erase(known);
  }
  outcomes_.erase(key);
}

}  // namespace lockstep::job
