// The engine around a reconcile function. Workers take keys from a queue, wait until the caches are complete and show
// the operator's own last writes, and reconcile. A key that fails or asks for it goes back into the queue.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "operator/api/object.h"
#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/base/mutex.h"
#include "operator/base/result.h"
#include "operator/cache/informer.h"
#include "operator/control/own_writes.h"
#include "operator/control/work_queue.h"

namespace lockstep::control {

struct ControllerOptions {
  std::string name = "trainingjob";
  int workers = 4;
  // resync: every key again, in case an event missed its key; zero: never
  Duration resync = std::chrono::hours(1);
  // a reconcile that runs longer makes healthy() false
  Duration stuck_after = std::chrono::minutes(5);
};

class Controller {
 public:
  // Brings one job nearer to its desired state, from the newest snapshot. Returns when to reconcile again without an
  // event (nullopt: not at all). Errors: kConflict is retried quietly; kInvalid is final until something changes.
  // kCancelled (the fence refused a write) is retried within a second, because leadership is verified again or ends the
  // process. kTooManyRequests waits as long as the server asked; all others are retried with backoff. Never called for
  // one key on two threads at once.
  using Reconcile = std::function<Result<std::optional<Duration>>(const api::ObjectKey& key)>;

  // The references outlive this. `all_keys` feeds the resync.
  Controller(WorkQueue& queue, OwnWrites& own_writes, std::vector<const cache::Synced*> caches, Clock& clock,
             MetricsRegistry& metrics, ControllerOptions options, Reconcile reconcile,
             std::function<std::vector<api::ObjectKey>()> all_keys);
  // stop()
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // Starts the workers. Once.
  void start();
  // Starts no further reconcile; returns when the last has ended. Drops queued keys: the next leader lists everything.
  void stop();

  // All caches have had their first list. Any thread.
  bool caches_synced() const;
  // False if a worker is stuck. Ignores the API server: its outage is no reason to kill this process.
  bool healthy() const;

 private:
  void work();
  void resync();
  void handle(const api::ObjectKey& key);
  void settle(const api::ObjectKey& key, const Result<std::optional<Duration>>& result);

  WorkQueue& queue_;
  OwnWrites& own_writes_;
  const std::vector<const cache::Synced*> caches_;
  Clock& clock_;
  MetricsRegistry& metrics_;
  const ControllerOptions options_;
  const Reconcile reconcile_;
  const std::function<std::vector<api::ObjectKey>()> all_keys_;
  Histogram& seconds_;

  Mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::control
