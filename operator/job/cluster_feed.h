// Fills a placement::Cluster from the API server: all nodes, and the pods of every namespace and scheduler that are not
// terminal. Decides nothing: its users ask the cluster through with_cluster().
//
// Guarantees: the cluster follows the server as cache::Reflector says. No text is read under the mutex. An object that
// cannot be read is counted, logged and left out.
// Assumptions: the operator may list and watch nodes, and pods of all namespaces.
// Caveats: an object that becomes unreadable keeps its last readable form until the next list.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/cache/informer.h"
#include "operator/cache/reflector.h"
#include "operator/job/cluster_access.h"
#include "operator/kube/api.h"
#include "operator/placement/cluster.h"
#include "operator/placement/profile.h"
#include "operator/placement/sickness.h"

namespace lockstep::job {

// Owns the cluster, its mutex and the threads of two watches.
class ClusterFeed final : public ClusterAccess, public cache::Synced {
 public:
  // The references outlive this, and no thread runs until start(). `profile` has passed check(). A node with one of
  // `signs` gets no pods. `on_change` is called on a thread of a watch, without the mutex. It is called after each
  // list, and after each event that a decision may depend on, as Cluster::changes() says. It only wakes somebody: the
  // next event waits.
  ClusterFeed(kube::Api& api, Clock& clock, MetricsRegistry& metrics, placement::Profile profile,
              placement::SickSigns signs, std::function<void()> on_change);
  // Stops.
  ~ClusterFeed() override;
  ClusterFeed(const ClusterFeed&) = delete;
  ClusterFeed& operator=(const ClusterFeed&) = delete;

  void start();
  // Ends the watches and joins their threads: on_change is not called afterwards. with_cluster() stays allowed.
  // Idempotent.
  void stop();
  // Nodes and pods were listed once. Any thread.
  bool has_synced() const override;

  // Lists the nodes again when the cluster wants it after `use`, which may have acquired a shape with a selector.
  void with_cluster(const std::function<void(placement::Cluster&)>& use) override;

 private:
  class Sink;
  class NodeSink;
  class PodSink;

  // Lets go of the mutex first.
  void list_nodes_if_wanted(std::unique_lock<std::mutex> lock);
  // Calls `change` under the mutex, and on_change after it when the cluster has changed.
  template <typename F>
  void change(F&& change);

  const placement::SickSigns signs_;
  const std::function<void()> on_change_;
  std::mutex mutex_;
  placement::Cluster cluster_;    // protected by mutex_
  bool node_list_coming_ = true;  // asked for, or under way; protected by mutex_
  std::unique_ptr<NodeSink> node_sink_;
  std::unique_ptr<PodSink> pod_sink_;
  // Last: their threads use all of the above.
  cache::Reflector nodes_;
  cache::Reflector pods_;
};

}  // namespace lockstep::job
