// Gathers a snapshot, decides, and carries the plan out. The only writer of pods, Services and the status of jobs.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/base/result.h"
#include "operator/control/own_writes.h"
#include "operator/job/child_writes.h"
#include "operator/job/children.h"
#include "operator/job/executor.h"
#include "operator/job/job_placement.h"
#include "operator/job/plan.h"
#include "operator/job/sickness_watch.h"
#include "operator/job/snapshot.h"
#include "operator/kube/api.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::job {

struct ReconcilerOptions {
  AgentSettings agent;  // until set_agent()
  // Right after taking over, a member's silence says nothing: it has to find the new leader first.
  Duration settle = std::chrono::seconds(5);
  // Until then a node that is called not ready and silent does not count as dead.
  Duration reconnect = rendezvous::kReconnectWithin;
  const SicknessWatch* sickness = nullptr;  // outlives the reconciler; null: no pod is sick
  const SicknessWatch* deaths = nullptr;    // outlives the reconciler; null: no node is called dead
  JobPlacement* placement = nullptr;        // outlives the reconciler; null: kube-scheduler places all pods
};

// Thread-safe for different keys; the controller never calls it for one key twice at once.
class Reconciler {
 public:
  using SendEvent = std::function<void(const api::TrainingJob& job, const EventToSend& event)>;

  // The references outlive this. The executor is stopped before this is destroyed.
  Reconciler(kube::Api& api, const Caches& caches, rendezvous::Coordinator& coordinator, control::OwnWrites& own_writes,
             Executor& executor, Clock& clock, MetricsRegistry& metrics, ReconcilerOptions options,
             SendEvent send_event);

  // What pods that are created from now on know of the operator, planned pods too. Any thread.
  void set_agent(const AgentSettings& agent);

  // One step towards what the job should be; returns when to look again without an event. Errors as
  // control::Controller::Reconcile has them. While the executor carries out the job's last plan nothing is decided: it
  // tells of its end.
  Result<std::optional<Duration>> reconcile(const api::ObjectKey& key);

 private:
  // The coordinator's failure of a job, dated by the monotonic clock.
  struct FailureSeen {
    std::int64_t generation = 0;
    WallTime time{};
    MonotonicTime at{};
  };
  // What is known of a job beside the caches. It is lost with the process; no correctness depends on it.
  struct Memory {
    std::string uid;
    std::optional<CreateProblem> create_problem;
    std::optional<WallTime> last_status_write;
    bool run_as_non_root = false;  // the namespace asked for it
    int failed_batches = 0;        // in a row
    MonotonicTime next_batch{};    // after a failure, not before
    bool runs = false;             // its ranks report progress
    std::optional<FailureSeen> failure;
    std::optional<EventToSend> notice;  // of the last plan
  };

  Memory recall(const api::ObjectKey& key);
  void remember(const api::ObjectKey& key, Memory memory);
  void forget(const api::ObjectKey& key);
  std::size_t running() const;
  AgentSettings agent_settings();

  // Asks placement for the snapshot's job. False: it could not be asked; without an answer no pod is created.
  bool ask_placement(Snapshot& snapshot);
  void look_for_sick(Snapshot& snapshot) const;
  void look_for_dead(Snapshot& snapshot) const;
  // How long ago the failure of the snapshot's view was. Its own time is read when it is first seen only.
  Duration failure_age(const Snapshot& snapshot, Memory& memory) const;
  Result<std::optional<Duration>> execute(const Snapshot& snapshot, Plan plan, Memory& memory);
  Status write_status(const api::TrainingJob& job, const api::TrainingJobStatus& status);
  // Hands the plan's deletes and creates to the executor.
  void start_batch(const Snapshot& snapshot, const Plan& plan, const Memory& memory);
  // What became of the job's last batch; an error that ends this reconcile.
  Status take_outcome(const api::ObjectKey& key, Memory& memory);
  void observe_phases(const api::Attempt& before, const api::Attempt& attempt);
  void count_changes(const api::TrainingJob& job, const api::TrainingJobStatus& status);

  kube::Api& api_;
  const Caches caches_;
  rendezvous::Coordinator& coordinator_;
  control::OwnWrites& own_writes_;
  Executor& executor_;
  Clock& clock_;
  MetricsRegistry& metrics_;
  const ReconcilerOptions options_;
  const SendEvent send_event_;
  const MonotonicTime started_;
  Counter& pods_created_;
  Counter& pods_deleted_;

  mutable std::mutex mutex_;
  AgentSettings agent_;                                      // protected by mutex_
  std::map<api::ObjectKey, Memory> memory_;                  // protected by mutex_
  std::size_t running_ = 0;                                  // jobs that run; protected by mutex_
  std::map<api::ObjectKey, ChildWrites::Outcome> outcomes_;  // of batches that ended; protected by mutex_
};

}  // namespace lockstep::job
