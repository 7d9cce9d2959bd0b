// Carries out the bulk writes of plans beside the workers: thousands of creates hold up no reconcile.
//
// Guarantees:
// * A batch stops at its first error: no write of it begins afterwards.
// * Batches of different jobs take turns, write by write, so that a large one delays a small one by little. Repair goes
//   before bulk, and has one request more than the limit allows. Status and record do not pass through here: workers
//   and the coordinator write them by calls of their own, which wait for no bulk write.
// * The number of writes under way adapts to the server (kube/adaptive_limit.h). A write that the server refuses with
//   429 is made again later and ends no batch.
// * Failed writes are counted by error code in lockstep_bulk_write_failures_total.
// * A batch ends after `slice`, done or not, because the job may have changed: the rest is decided again.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "operator/api/object.h"
#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/base/result.h"
#include "operator/kube/adaptive_limit.h"

namespace lockstep::job {

struct ExecutorOptions {
  // Writes under way at most, each on a thread of its own. All but the first start when they are needed, and all but
  // one end after `idle` without a write. 0: submit() carries the batch out itself before it returns; exceptions of a
  // write pass through.
  int most = static_cast<int>(kube::AdaptiveLimit::Options().most);
  // Writes under way before anything is known of the server.
  int first = static_cast<int>(kube::AdaptiveLimit::Options().first);
  Duration slice = std::chrono::seconds(10);  // of one batch
  Duration stuck_after = std::chrono::minutes(1);
  Duration idle = std::chrono::seconds(10);
};

class Executor {
 public:
  enum class Priority { kRepair, kBulk };

  struct Batch {
    api::ObjectKey key;
    Priority priority = Priority::kBulk;
    std::size_t count = 0;
    // Makes write i, on any thread. An error ends the batch, except kTooManyRequests. What concerns the one object
    // alone is a success.
    std::function<Status(std::size_t)> write;
    // Writes that begin only when all before them have ended.
    std::set<std::size_t> barriers{};
    // Called once, after the last write: the error that ended the batch, if one did. Not called after stop().
    std::function<void(const std::optional<Error>&)> done;
  };

  // `ended` is told of the key after each batch, when busy() is false again. The references outlive this.
  Executor(Clock& clock, MetricsRegistry& metrics, ExecutorOptions options,
           std::function<void(const api::ObjectKey&)> ended = {});
  // stop()
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Queues the batch. One batch per key at a time: the caller asks busy() first, and is alone with the key.
  void submit(Batch batch);
  // A batch of the key is queued or under way.
  bool busy(const api::ObjectKey& key) const;
  // The plan behind the key's batch is out of date: no further write of it begins. Any thread; no batch: nothing.
  void interrupt(const api::ObjectKey& key);
  // No further write begins; returns when those under way have ended, at most after their calls' own deadlines.
  void stop();

  // No write has been under way for longer than `stuck_after`. Any thread.
  bool healthy() const;
  // Writes that may be under way now.
  int limit() const;
  // Threads that make writes or wait for one.
  int threads() const;

 private:
  struct Running;  // a batch
  struct Worker {
    std::thread thread;
    bool ended = false;  // its last act; the thread is still to be joined
  };
  using Line = std::deque<std::shared_ptr<Running>>;

  void carry_out(Batch& batch);
  void work(Worker& self);
  void add_thread_locked();
  int threads_locked() const;
  Line& line_of(const Running& batch);
  // A batch with a write that may begin; it goes to the end of its line. Null: there is none.
  std::shared_ptr<Running> next_locked(MonotonicTime now);
  std::shared_ptr<Running> take_from(Line& line, MonotonicTime now);
  void count_answer(const Status& written, Duration latency);
  void end_batch(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Running>& batch);

  Clock& clock_;
  const ExecutorOptions options_;
  const std::function<void(const api::ObjectKey&)> ended_;
  Gauge& limit_gauge_;
  Gauge& inside_gauge_;
  Histogram& seconds_;
  MetricsRegistry& metrics_;

  mutable std::mutex mutex_;  // protects what follows
  std::condition_variable changed_;
  kube::AdaptiveLimit limit_;
  Line repair_, bulk_;  // batches with writes that have not begun
  std::map<api::ObjectKey, std::shared_ptr<Running>> batches_;
  std::multiset<MonotonicTime> under_way_;  // since when, of each write
  int idle_ = 0;                            // threads that wait
  bool stop_ = false;
  std::list<Worker> workers_;
};

}  // namespace lockstep::job
