// Keys that need attention. Only keys are queued, never objects: a worker reads the newest state.
//
// Guarantees: a key is never with two workers at once. A key that is added while it waits is handed out once. A key
// that is added while a worker has it is handed out again afterwards. Keys come in the order in which they were added,
// so a hot one waits its turn like all others.
//
// A burst of events costs a bounded share of one worker. Reconciling a key costs time that grows with the size of its
// job. So the key rests afterwards, in proportion to that time:
//
//   add()       rests 1x as long, at most 50 ms
//   add_soon()  rests 4x as long, at least 20 ms and at most 1 s
//
// A key that has rested is handed out at once.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/base/mutex.h"

namespace lockstep::control {

struct WorkQueueOptions {
  std::string name = "trainingjob";                       // label of the metrics
  Duration first_backoff = std::chrono::milliseconds(5);  // of a key that failed; doubles with each failure
  Duration most_backoff = std::chrono::seconds(60);
  // Retries of all keys together, as a token bucket: a cluster-wide outage must not turn into a flood of retries.
  double retries_per_second = 10;
  double retry_burst = 100;
  // Rest of a key after a worker had it; the table above.
  double now_share = 1, soon_share = 4;
  Duration now_most = std::chrono::milliseconds(50);
  Duration soon_least = std::chrono::milliseconds(20), soon_most = std::chrono::seconds(1);
};

// Thread-safe.
class WorkQueue {
 public:
  WorkQueue(Clock& clock, MetricsRegistry& metrics, WorkQueueOptions options = {});

  // The key needs attention at once: a member failed or left, or a user changed the job.
  void add(const api::ObjectKey& key);
  // For events of which many make one picture: a pod of hundreds was created, or its agent connected.
  void add_soon(const api::ObjectKey& key);
  // ... after `delay`; of several delays for one key the earliest counts.
  void add_after(const api::ObjectKey& key, Duration delay);
  // ... after the key's backoff, because its reconcile failed.
  void retry(const api::ObjectKey& key);
  // The key's reconcile succeeded: its next failure starts with the first backoff.
  void forget(const api::ObjectKey& key);

  // Waits for a key. nullopt if the queue was shut down and is empty, or at `deadline`. The worker returns every key
  // that it got with done().
  std::optional<api::ObjectKey> take(MonotonicTime deadline);
  void done(const api::ObjectKey& key);

  // Accepts no more keys and drops those that wait for their time; take() hands out what is queued, then nullopt.
  void shut_down();
  // Also drops what is queued: workers finish the keys that they hold.
  void shut_down_now();
  bool shutting_down() const;

  // Keys that could be handed out now.
  std::size_t depth() const;
  // How long a worker has had the oldest key in progress; zero if there is none.
  Duration longest_running() const;

 private:
  // Since when a key has rested, and after how much work.
  struct Rest {
    MonotonicTime since;
    Duration work;
  };
  enum class Pace { kNow, kSoon };

  void add_locked(const api::ObjectKey& key) LOCKSTEP_REQUIRES(mutex_);
  void add_rested_locked(const api::ObjectKey& key, Pace pace) LOCKSTEP_REQUIRES(mutex_);
  // When the key may be handed out.
  MonotonicTime rested_locked(const api::ObjectKey& key, Pace pace) const LOCKSTEP_REQUIRES(mutex_);
  void forget_rests_locked() LOCKSTEP_REQUIRES(mutex_);
  void add_after_locked(const api::ObjectKey& key, Duration delay) LOCKSTEP_REQUIRES(mutex_);
  // Moves due keys into the queue; returns when the next becomes due.
  std::optional<MonotonicTime> promote_locked() LOCKSTEP_REQUIRES(mutex_);
  void measure_locked() LOCKSTEP_REQUIRES(mutex_);

  Clock& clock_;
  const WorkQueueOptions options_;
  Counter& adds_;
  Counter& retries_;
  Gauge& depth_;
  Gauge& unfinished_;
  Gauge& longest_;
  Histogram& queued_seconds_;
  Histogram& work_seconds_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  // Every key of queue_ is in dirty_ and not in processing_.
  std::deque<api::ObjectKey> queue_ LOCKSTEP_GUARDED_BY(mutex_);
  // Keys that need attention; a key that is in processing_ too goes into queue_ when it is done.
  std::map<api::ObjectKey, MonotonicTime> dirty_ LOCKSTEP_GUARDED_BY(mutex_);  // since when
  // Keys that are with a worker.
  std::map<api::ObjectKey, MonotonicTime> processing_ LOCKSTEP_GUARDED_BY(mutex_);  // since when
  // Keys that will need attention: by time, and the earliest time of each.
  std::set<std::pair<MonotonicTime, api::ObjectKey>> waiting_ LOCKSTEP_GUARDED_BY(mutex_);
  std::map<api::ObjectKey, MonotonicTime> due_ LOCKSTEP_GUARDED_BY(mutex_);
  // Keys in progress that were added meanwhile: they are queued when they are done and have rested.
  std::map<api::ObjectKey, Pace> again_ LOCKSTEP_GUARDED_BY(mutex_);
  std::map<api::ObjectKey, Rest> rests_ LOCKSTEP_GUARDED_BY(mutex_);
  std::size_t rests_bound_ LOCKSTEP_GUARDED_BY(mutex_) = 64;  // beyond this, rests that have ended are removed
  std::map<api::ObjectKey, int> failures_ LOCKSTEP_GUARDED_BY(mutex_);  // in a row
  double tokens_ LOCKSTEP_GUARDED_BY(mutex_);  // of the retry bucket; below zero: reserved by waiting retries
  MonotonicTime tokens_at_ LOCKSTEP_GUARDED_BY(mutex_);
  bool shutting_down_ LOCKSTEP_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::control
