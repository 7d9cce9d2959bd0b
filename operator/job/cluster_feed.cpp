#include "operator/job/cluster_feed.h"

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/object.h"
#include "operator/base/log.h"
#include "operator/kube/json_text.h"
#include "operator/placement/node_scan.h"
#include "operator/placement/pod_scan.h"

namespace lockstep::job {
namespace {

// A terminal pod takes nothing of a node. With this selector it leaves the watch as a deleted one.
constexpr const char* kNotTerminal = "status.phase!=Succeeded,status.phase!=Failed";

cache::ReflectorOptions of_pods() {
  cache::ReflectorOptions options;
  options.field_selector = kNotTerminal;
  options.fields = &placement::scanned_pod_fields();
  return options;
}

// Which pod it is, of a text that is JSON but goes beyond the bounds of scan_pod(). Such texts are rare: a DOM will do.
std::optional<placement::ScannedPod> named_pod(std::string_view text) {
  const kube::Json object = kube::Json::parse(text, nullptr, false);
  const std::string uid = kube::text_at(object, {"metadata", "uid"});
  if (uid.empty()) return std::nullopt;
  placement::ScannedPod pod;
  pod.uid = placement::Uid::of(uid);
  pod.name_space = kube::text_at(object, {"metadata", "namespace"});
  pod.name = kube::text_at(object, {"metadata", "name"});
  const std::string job = kube::text_at(object, {"metadata", "labels", api::kLabelJobUid});
  if (!job.empty()) pod.job = placement::Uid::of(job);
  return pod;
}

}  // namespace

// What both sinks have: counts, and whether the list under way could be read as a whole.
class ClusterFeed::Sink : public cache::TextSink {
 public:
  Sink(ClusterFeed& feed, MetricsRegistry& metrics, const kube::Resource& resource, Gauge& known)
      : feed_(feed),
        kind_(resource.kind),
        unreadable_(metrics.counter("lockstep_cache_unreadable_total", "Objects that could not be parsed.",
                                    {{"resource", resource.plural}})),
        known_(known) {}

  bool listed() const { return listed_; }

 protected:
  void unreadable(const Error& error) {
    log::warn("placement leaves an object out that cannot be read", {{"kind", kind_}, {"error", error.message}});
    unreadable_.increment();
  }
  void end_of_list() {
    listed_ = true;
    if (feed_.on_change_) feed_.on_change_();
  }

  ClusterFeed& feed_;
  const std::string kind_;
  Counter& unreadable_;
  Gauge& known_;
  std::atomic<bool> listed_ = false;
  bool whole_ = true;
};

class ClusterFeed::NodeSink final : public Sink {
 public:
  NodeSink(ClusterFeed& feed, MetricsRegistry& metrics)
      : Sink(feed, metrics, kube::kNodes, metrics.gauge("lockstep_placement_nodes", "Nodes that placement knows.")) {}

 private:
  using Version = const std::string&;

  void begin_list() override {
    const std::lock_guard guard(feed_.mutex_);
    feed_.node_list_coming_ = true;
    feed_.cluster_.begin_nodes();
    // Enough until the next list, also for events: a shape that selects by another label makes the cluster want one.
    labels_ = feed_.cluster_.label_keys();
    whole_ = true;
  }
  void add_item(std::string_view item) override {
    const auto node = placement::scan_node(item, labels_, feed_.signs_);
    if (!node) {
      whole_ = false;
      return unreadable(node.error());
    }
    const std::lock_guard guard(feed_.mutex_);
    feed_.cluster_.put_node(*node);
  }
  void end_list(Version) override {
    std::unique_lock lock(feed_.mutex_);
    feed_.cluster_.end_nodes(whole_);
    feed_.node_list_coming_ = false;
    measure(feed_.cluster_);
    feed_.list_nodes_if_wanted(std::move(lock));
    end_of_list();
  }
  void put(std::string_view object, Version) override {
    const auto node = placement::scan_node(object, labels_, feed_.signs_);
    if (!node) return unreadable(node.error());
    feed_.change([&](placement::Cluster& cluster) {
      cluster.put_node(*node);
      measure(cluster);
    });
  }
  void remove(std::string_view object, Version) override {
    const auto name = placement::scan_name(object);
    if (!name) return unreadable(name.error());
    feed_.change([&](placement::Cluster& cluster) {
      cluster.remove_node(*name);
      measure(cluster);
    });
  }
  void bookmark(Version) override {}

  void measure(const placement::Cluster& cluster) { known_.set(cluster.tree().node_count(placement::kRoot)); }

  placement::LabelKeys labels_;  // that a scan keeps
};

class ClusterFeed::PodSink final : public Sink {
 public:
  PodSink(ClusterFeed& feed, MetricsRegistry& metrics)
      : Sink(feed, metrics, kube::kPods,
             metrics.gauge("lockstep_placement_pods", "Pods that placement knows, without those that are terminal.")) {}

 private:
  using Version = const std::string&;

  void begin_list() override {
    const std::lock_guard guard(feed_.mutex_);
    feed_.cluster_.begin_pods();
    whole_ = true;
  }
  void add_item(std::string_view item) override {
    const auto pod = placement::scan_pod(item);
    if (!pod) {
      // A pod beyond the bounds, which any user can create, hides no other one.
      whole_ = whole_ && named_pod(item).has_value();
      return unreadable(pod.error());
    }
    const std::lock_guard guard(feed_.mutex_);
    feed_.cluster_.put_pod(*pod);
  }
  void end_list(Version version) override {
    {
      const std::lock_guard guard(feed_.mutex_);
      feed_.cluster_.end_pods(whole_);
      pass(feed_.cluster_, version);
    }
    end_of_list();
  }
  void put(std::string_view object, Version version) override {
    const auto pod = placement::scan_pod(object);
    if (!pod) unreadable(pod.error());
    feed_.change([&](placement::Cluster& cluster) {
      if (pod) cluster.put_pod(*pod);
      pass(cluster, version);
    });
  }
  void remove(std::string_view object, Version version) override {
    const auto pod = placement::scan_pod(object);
    if (!pod) unreadable(pod.error());
    const auto gone = pod ? std::optional(*pod) : named_pod(object);
    feed_.change([&](placement::Cluster& cluster) {
      if (gone) cluster.remove_pod(*gone);
      pass(cluster, version);
    });
  }
  void bookmark(Version version) override {
    feed_.change([&](placement::Cluster& cluster) { pass(cluster, version); });
  }

  // Everything up to the version is in the cluster.
  void pass(placement::Cluster& cluster, Version version) {
    cluster.observe(version);
    known_.set(static_cast<double>(cluster.pods()));
  }
};

ClusterFeed::ClusterFeed(kube::Api& api, Clock& clock, MetricsRegistry& metrics, placement::Profile profile,
                         placement::SickSigns signs, std::function<void()> on_change)
    : signs_(std::move(signs)),
      on_change_(std::move(on_change)),
      cluster_(std::move(profile)),
      node_sink_(std::make_unique<NodeSink>(*this, metrics)),
      pod_sink_(std::make_unique<PodSink>(*this, metrics)),
      nodes_(api, clock, metrics, kube::kNodes, {}, *node_sink_),
      pods_(api, clock, metrics, kube::kPods, of_pods(), *pod_sink_) {}

ClusterFeed::~ClusterFeed() {
  stop();
}

void ClusterFeed::start() {
  nodes_.start();
  pods_.start();
}

void ClusterFeed::stop() {
  nodes_.stop();
  pods_.stop();
}

bool ClusterFeed::has_synced() const {
  return node_sink_->listed() && pod_sink_->listed();
}

void ClusterFeed::with_cluster(const std::function<void(placement::Cluster&)>& use) {
  std::unique_lock lock(mutex_);
  use(cluster_);
  list_nodes_if_wanted(std::move(lock));
}

void ClusterFeed::list_nodes_if_wanted(std::unique_lock<std::mutex> lock) {
  if (node_list_coming_ || !cluster_.wants_node_list()) return;
  node_list_coming_ = true;
  lock.unlock();  // list_again() ends the watch under way
  nodes_.list_again();
}

template <typename F>
void ClusterFeed::change(F&& change) {
  bool changed = false;
  {
    const std::lock_guard guard(mutex_);
    const auto before = cluster_.changes();
    std::forward<F>(change)(cluster_);
    changed = cluster_.changes() != before;
  }
  if (changed && on_change_) on_change_();
}

}  // namespace lockstep::job
