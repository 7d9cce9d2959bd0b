// Where reconcilers ask which nodes a job gets. One placer answers for all jobs, because two would give one hole to two
// gangs. It decides when a job asks, when the cluster has changed, and when time alone may change an answer.
//
// Guarantees: no answer before every job that was there at the start has asked or withdrawn, because the queue is not
// in order before. Whose answer changed without asking is told. After a change of the cluster the placer takes at most
// a tenth of one core's time.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "operator/api/object.h"
#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/job/cluster_access.h"
#include "operator/placement/placer.h"

namespace lockstep::job {

class PlacementDesk {
 public:
  // The keys (Gang::key) of all jobs that are there. Called until each of them has asked or withdrawn, with the
  // cluster's lock held.
  using Expected = std::function<std::set<std::string>()>;
  // The answer for this job is another one. On any thread, without a lock; it should only queue the job.
  using Changed = std::function<void(const api::ObjectKey& job)>;

  // The references outlive this. The owner of the cluster calls cluster_changed().
  PlacementDesk(ClusterAccess& cluster, Clock& clock, MetricsRegistry& metrics, Expected expected, Changed changed);
  // stop()
  ~PlacementDesk();
  PlacementDesk(const PlacementDesk&) = delete;
  PlacementDesk& operator=(const PlacementDesk&) = delete;

  void start();
  // Ends the thread. ask() still answers.
  void stop();

  // The gang as it is now; gang.shape is filled in here. What is decided for it; empty: nothing yet. Any thread.
  std::optional<placement::Answer> ask(const api::ObjectKey& job, placement::Gang gang, const placement::Shape& shape);
  // Whether the gang's answer gives `node` to the slot: the plan that says so may be older than the answer. Any thread.
  bool gives(const std::string& gang, int slot, const std::string& node);
  // The same for a pod that is opened, and whether its node has room for it now, as Placer::open() says. After a true,
  // opened() is called when the write has ended. After a false the desk decides again. It does so at the next ask(), or
  // by itself with what else has changed, so that many refusals cost one decision. Any thread.
  bool open(const std::string& gang, const placement::Opening& opening);
  // `uid`, `resource_version`: of the pod after the write; "": it failed; empty: its answer was lost. Any thread.
  void opened(const placement::Opening& opening, const std::string& uid,
              const std::optional<std::string>& resource_version);
  // The job wants no nodes; "" for one that is gone and never asked. Any thread.
  void withdraw(const std::string& gang);
  // Nodes or pods have changed: there may be room that was not there. Any thread; returns at once.
  void cluster_changed();

 private:
  struct Known {
    api::ObjectKey job;
    placement::ShapeId shape = 0;
    placement::Wait told{};  // what `obstacles` belong to
    std::string obstacles{};
  };

  // Of the cluster, with its lock held.
  void begin_locked(placement::Cluster& cluster);
  // Fills in why nodes take no pod of a gang that waits for room; again when the reason of the wait changes.
  void explain_locked(placement::Cluster& cluster, const placement::Gang& gang, placement::Wait& wait);
  std::vector<api::ObjectKey> step_locked();  // the jobs whose answer changed

  void tell(const std::vector<api::ObjectKey>& changed);
  void run(const std::stop_token& stop);

  ClusterAccess& cluster_;
  Clock& clock_;
  const Expected expected_;
  const Changed changed_;
  Histogram& seconds_;
  Gauge& gangs_;

  // Used with the cluster's lock held.
  std::optional<placement::ClusterView> view_;
  std::optional<placement::Placer> placer_;
  std::map<std::string, Known> known_;  // by Gang::key

  std::mutex mutex_;  // protects what follows; taken after the cluster's lock, never before it
  std::condition_variable wake_;
  bool dirty_ = false;
  std::optional<MonotonicTime> next_;
  std::jthread thread_;
};

}  // namespace lockstep::job
