#include "operator/job/reconciler.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/base/log.h"
#include "operator/cache/store.h"
#include "operator/job/decide.h"

namespace lockstep::job {
namespace {

using api::Json;

// Runs work(0) ... work(count - 1) on at most `width` threads, this one among them. After the first that returns false
// no other begins.
template <typename Work>
void in_parallel(size_t count, int width, const Work& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> go_on{true};
  const auto run = [&] {
    for (size_t i = next++; i < count && go_on; i = next++) {
      if (!work(i)) go_on = false;
    }
  };
  std::vector<std::jthread> helpers;
  const size_t threads = std::min(count, static_cast<size_t>(std::max(width, 1)));
  for (size_t i = 1; i < threads; ++i) helpers.emplace_back(run);
  run();
}

// What the API server will say again however often it is asked.
bool is_refusal(ErrorCode code) {
  return code == ErrorCode::kInvalid || code == ErrorCode::kForbidden || code == ErrorCode::kAlreadyExists;
}

// What concerns one object alone: the next may go well. All other errors would meet the next object as well, and a
// server that is away takes a call's deadline for each.
bool concerns_one(ErrorCode code) {
  return code == ErrorCode::kAlreadyExists || code == ErrorCode::kConflict;
}

std::string resource_version(const Json& object) {
  auto meta = api::parse_meta(object);
  return meta ? meta->resource_version : std::string();
}

}  // namespace

Reconciler::Reconciler(kube::Api& api, const Caches& caches, rendezvous::Coordinator& coordinator,
                       control::OwnWrites& own_writes, Clock& clock, MetricsRegistry& metrics,
                       ReconcilerOptions options, SendEvent send_event)
    : api_(api),
      caches_(caches),
      coordinator_(coordinator),
      own_writes_(own_writes),
      clock_(clock),
      metrics_(metrics),
      options_(std::move(options)),
      send_event_(std::move(send_event)),
      started_(clock.now()),
      pods_created_(metrics.counter("lockstep_pods_created_total", "Pods that were created.")),
      pods_deleted_(metrics.counter("lockstep_pods_deleted_total", "Pods that were deleted.")) {}

Result<std::optional<Duration>> Reconciler::reconcile(const api::ObjectKey& key) {
  Memory memory = recall(key);
  auto snapshot = gather(caches_, key);
  if (!snapshot || (!memory.uid.empty() && memory.uid != snapshot->job->meta.uid)) {
    if (!memory.uid.empty()) coordinator_.forget_job(memory.uid);
    forget(key);
    memory = {};
    if (!snapshot) return std::optional<Duration>();
  }
  memory.uid = snapshot->job->meta.uid;
  snapshot->view = coordinator_.view(memory.uid);
  snapshot->create_problem = memory.create_problem;
  snapshot->last_status_write = memory.last_status_write;
  snapshot->settling = clock_.now() - started_ < options_.settle;
  snapshot->sought = clock_.now() - started_ < options_.sought;
  snapshot->now = clock_.wall_now();
  auto result = execute(*snapshot, decide(*snapshot), memory);
  remember(key, std::move(memory));
  return result;
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
  if (plan.forget) coordinator_.forget_job(job.meta.uid);
  if (plan.coordinator) coordinator_.set_job(*plan.coordinator);

  std::optional<Error> failed;
  std::mutex mutex;
  in_parallel(plan.deletes.size(), options_.parallel_creates, [&](size_t i) {
    const auto removed = remove_pod(job, plan.deletes[i]);
    if (removed) return true;
    const std::lock_guard guard(mutex);
    failed = removed.error();
    return is_refusal(failed->code);  // of this pod
  });
  if (failed && !is_refusal(failed->code)) return *failed;
  if (plan.create_service || !plan.creates.empty()) {
    auto creates = create_children(job, plan, memory.run_as_non_root);
    memory.run_as_non_root = creates.run_as_non_root;
    if (creates.refusal) {
      const int times = memory.create_problem ? memory.create_problem->times : 0;
      creates.refusal->times = times + 1;
      memory.create_problem = std::move(creates.refusal);
      plan.look_again_in(Duration::zero());  // it becomes a condition
    } else {
      memory.create_problem.reset();
    }
    if (creates.error) failed = std::move(creates.error);
  }
  if (failed) return *failed;
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
  own_writes_.wrote(job.meta.key(), kJobCache, resource_version(written));
  return {};
}

Status Reconciler::remove_pod(const api::TrainingJob& job, const PodToDelete& removal) {
  const kube::DeleteOptions options{.uid = removal.uid, .grace_period_seconds = removal.grace_period_seconds};
  const auto removed = api_.remove(kube::kPods, job.meta.name_space, removal.name, options);
  // Gone already, or the name has been taken by another pod: what was asked for has happened.
  if (!removed && removed.error().code != ErrorCode::kNotFound && removed.error().code != ErrorCode::kConflict) {
    return removed.error().in("deleting pod " + removal.name);
  }
  log::info("pod deleted", {{"job", job.meta.key().text()}, {"pod", removal.name}, {"why", removal.why}});
  if (removed) pods_deleted_.increment();
  own_writes_.deleted(job.meta.key(), kPodCache, removal.uid);
  return {};
}

Reconciler::Creates Reconciler::create_children(const api::TrainingJob& job, const Plan& plan, bool run_as_non_root) {
  Creates outcome;
  std::atomic<bool> non_root = run_as_non_root;
  std::mutex mutex;
  const auto judge = [&](const char* kind, const std::string& name, const Status& created) {
    if (created) return true;
    const std::lock_guard guard(mutex);
    const Error& error = created.error();
    if (is_refusal(error.code)) {
      outcome.refusal = CreateProblem{.kind = kind,
                                      .name = name,
                                      .code = error.code,
                                      .message = error.message,
                                      .last = clock_.wall_now(),
                                      .times = 0,
                                      .job_generation = job.meta.generation};
    } else {
      outcome.error = error.in(std::string("creating ") + kind + " " + name);
    }
    return concerns_one(error.code);
  };
  if (plan.create_service) {
    judge("Service", service_name(job), create_one(job, kube::kServices, kServiceCache, build_service(job)));
    outcome.run_as_non_root = run_as_non_root;
    if (outcome.refusal || outcome.error) return outcome;
  }
  // The first alone: what is refused for one is refused for all, and one refusal is enough.
  const auto create = [&](size_t i) {
    const auto& wanted = plan.creates[i];
    return judge("Pod", pod_name(job, wanted.slot, wanted.incarnation), create_pod(job, wanted, non_root));
  };
  if (!plan.creates.empty()) create(0);
  if (plan.creates.size() > 1 && !outcome.refusal && !outcome.error) {
    in_parallel(plan.creates.size() - 1, options_.parallel_creates, [&](size_t i) { return create(i + 1); });
  }
  outcome.run_as_non_root = non_root;
  return outcome;
}

Status Reconciler::create_pod(const api::TrainingJob& job, const PodToCreate& wanted,
                              std::atomic<bool>& run_as_non_root) {
  AgentSettings agent = options_.agent;
  agent.run_as_non_root = run_as_non_root;
  LOCKSTEP_TRY(const auto pod, build_pod(job, wanted.slot, wanted.incarnation, agent, wanted.avoid_nodes));
  auto created = create_one(job, kube::kPods, kPodCache, pod);
  // A namespace that enforces the `restricted` standard says so in its refusal; no right to read namespaces is needed.
  if (created || agent.run_as_non_root || created.error().code != ErrorCode::kForbidden ||
      created.error().message.find("runAsNonRoot") == std::string::npos) {
    return created;
  }
  agent.run_as_non_root = true;
  LOCKSTEP_TRY(const auto strict_pod, build_pod(job, wanted.slot, wanted.incarnation, agent, wanted.avoid_nodes));
  created = create_one(job, kube::kPods, kPodCache, strict_pod);
  if (created) run_as_non_root = true;
  return created;
}

Status Reconciler::create_one(const api::TrainingJob& job, const kube::Resource& resource, const char* cache,
                              const Json& object) {
  const auto key = job.meta.key();
  LOCKSTEP_TRY(const auto wanted, api::parse_meta(object));
  auto created = api_.create(resource, job.meta.name_space, object, {.strict = true});
  if (created) {
    own_writes_.wrote(key, cache, resource_version(*created));
    if (resource == kube::kPods) {
      pods_created_.increment();
      log::info("pod created", {{"job", key.text()}, {"pod", wanted.name}});
    }
    return {};
  }
  if (created.error().code != ErrorCode::kAlreadyExists) return created.error();
  // Either an earlier try of ours succeeded and its answer was lost, or the name is somebody else's.
  auto existing = api_.get(resource, job.meta.name_space, wanted.name);
  if (!existing && existing.error().code == ErrorCode::kNotFound) {
    return fail(ErrorCode::kConflict, wanted.name + " went away while it was looked at");
  }
  if (!existing) return existing.error();
  LOCKSTEP_TRY(const auto meta, api::parse_meta(*existing));
  const bool mine = meta.controller_uid() == job.meta.uid &&
                    meta.label(api::kLabelSlot) == wanted.label(api::kLabelSlot) &&
                    meta.label(api::kLabelIncarnation) == wanted.label(api::kLabelIncarnation);
  if (!mine) return fail(ErrorCode::kAlreadyExists, wanted.name + " belongs to another object");
  // One of ours that is going away shows up in the cache as a loss and is dealt with there.
  own_writes_.wrote(key, cache, meta.resource_version);
  return {};
}

// Each phase once, when it is known.
void Reconciler::observe_phases(const api::Attempt& before, const api::Attempt& attempt) {
  static const std::vector<double> kBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
                                              1,     2,     5,     10,   20,   50,   100, 200, 500};
  for (const api::RecoveryPhase& phase : api::kRecoveryPhases) {
    if (before.*phase.ms >= 0 || attempt.*phase.ms < 0) continue;
    metrics_
        .histogram("lockstep_recovery_phase_seconds", "Seconds that a phase of a recovery took.",
                   {{"phase", phase.name}}, kBounds)
        .observe(static_cast<double>(attempt.*phase.ms) / 1000);
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
    metrics_.counter("lockstep_attempts_total", "Attempts of jobs that ended, by cause.", {{"cause", attempt.cause}})
        .increment();
    log::info("attempt ended", {{"job", job.meta.key().text()},
                                {"generation", std::to_string(attempt.generation)},
                                {"cause", attempt.cause},
                                {"strategy", attempt.strategy}});
  }
}

Reconciler::Memory Reconciler::recall(const api::ObjectKey& key) {
  const std::lock_guard guard(mutex_);
  const auto known = memory_.find(key);
  return known == memory_.end() ? Memory{} : known->second;
}

void Reconciler::remember(const api::ObjectKey& key, Memory memory) {
  const std::lock_guard guard(mutex_);
  memory_[key] = std::move(memory);
}

void Reconciler::forget(const api::ObjectKey& key) {
  own_writes_.forget(key);
  const std::lock_guard guard(mutex_);
  memory_.erase(key);
}

}  // namespace lockstep::job
