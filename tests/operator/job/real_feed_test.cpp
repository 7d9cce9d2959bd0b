// The feed against a real API server and kube-scheduler: LOCKSTEP_TEST_KUBECONFIG names the cluster. The pods lie on a
// node without a kubelet, which the test makes: nothing but the test and kube-scheduler changes them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "operator/job/cluster_feed.h"
#include "operator/kube/http_api.h"
#include "operator/kube/kubeconfig.h"

namespace lockstep::job::real_feed_test {
namespace {

using kube::Json;
using placement::Cluster;

const kube::Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};

class RealFeed : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* kubeconfig = std::getenv("LOCKSTEP_TEST_KUBECONFIG");
    if (kubeconfig == nullptr) GTEST_SKIP() << "LOCKSTEP_TEST_KUBECONFIG names no cluster to test against";
    auto& clock = SystemClock::instance();
    const auto access = kube::find_access({.kubeconfig = kubeconfig}, kube::process_environment(), clock);
    ASSERT_TRUE(access) << access.error().message;
    auto made = kube::make_http_api(*access, kube::process_environment(), clock, metrics);
    ASSERT_TRUE(made) << made.error().message;
    api = std::move(*made);
    create(kube::kNodes, "", {{"metadata", {{"name", node}, {"labels", {{"rack", "r1"}, {"feed", node}}}}}});
    ready();
    for (const std::string& name_space : {here, there}) {
      create(kNamespaces, "", {{"metadata", {{"name", name_space}}}});
    }
    feed.emplace(*api, clock, metrics, placement::Profile{"racks", {{"rack", "rack"}}}, placement::SickSigns(), [this] {
      const std::lock_guard guard(mutex);
      changed.notify_all();
    });
  }
  void TearDown() override {
    if (!api) return;
    for (const auto& [name_space, pod] : pods) end(name_space, pod);
    for (const std::string& name_space : {here, there}) static_cast<void>(api->remove(kNamespaces, "", name_space));
    static_cast<void>(api->remove(kube::kNodes, "", node));
  }

  void create(const kube::Resource& resource, const std::string& name_space, Json object) {
    object["apiVersion"] = resource.api_version();
    object["kind"] = resource.kind;
    const auto made = api->create(resource, name_space, object);
    ASSERT_TRUE(made) << made.error().message;
  }
  // What a kubelet reports.
  void ready() {
    const Json status{{"allocatable", {{"cpu", "8"}, {"memory", "8Gi"}, {"pods", "50"}, {gpu, "8"}}},
                      {"capacity", {{"cpu", "8"}, {"memory", "8Gi"}, {"pods", "50"}, {gpu, "8"}}},
                      {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}, {"reason", "Test"}}})}};
    const auto made = api->patch(kube::kNodes, "", node, kube::PatchType::kMerge, {{"status", status}}, "status");
    ASSERT_TRUE(made) << made.error().message;
  }
  // A pod that asks for `gpus`; bound at once where `on` is a node, as a DaemonSet's controller of old did it.
  void create_pod(const std::string& name_space, const std::string& name, int gpus, const std::string& scheduler,
                  const std::string& on = "") {
    Json spec{
        {"schedulerName", scheduler},
        {"automountServiceAccountToken", false},
        {"tolerations", Json::array({{{"operator", "Exists"}}})},
        {"nodeSelector", {{"feed", node}}},
        {"containers",
         Json::array(
             {{{"name", "main"}, {"image", "none"}, {"resources", {{"limits", {{gpu, std::to_string(gpus)}}}}}}})}};
    if (!on.empty()) spec["nodeName"] = on;
    const Json pod{{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"name", name}}}, {"spec", spec}};
    // A new namespace has no service account until the controller manager has made one.
    std::string last;
    ASSERT_TRUE(eventually([&] {
      const auto made = api->create(kube::kPods, name_space, pod);
      if (!made) last = made.error().message;
      return bool(made);
    })) << last;
    pods.emplace_back(name_space, name);
  }
  // As another scheduler does it.
  void bind(const std::string& name_space, const std::string& pod) {
    const kube::Resource binding{"", "v1", "pods/" + pod + "/binding", "Binding"};
    const auto made = api->create(binding, name_space,
                                  {{"apiVersion", "v1"},
                                   {"kind", "Binding"},
                                   {"metadata", {{"name", pod}}},
                                   {"target", {{"kind", "Node"}, {"name", node}}}});
    ASSERT_TRUE(made) << made.error().message;
  }
  void end(const std::string& name_space, const std::string& pod) {
    static_cast<void>(api->remove(kube::kPods, name_space, pod, {.grace_period_seconds = 0}));
  }

  // Wakes on each change of the feed, and every tenth of a second for what the feed does not see.
  bool eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::unique_lock lock(mutex);
      changed.wait_for(lock, std::chrono::milliseconds(100));
    }
    return true;
  }
  std::int64_t used() {
    std::int64_t used = -1;
    feed->with_cluster([&](Cluster& cluster) {
      const auto id = cluster.tree().find(node);
      if (id == placement::kNone) return;
      for (const auto& amount : cluster.amounts(id)) {
        if (amount.name == gpu) used = amount.used;
      }
    });
    return used;
  }
  bool comes_to_use(std::int64_t gpus) {
    return eventually([&] { return used() == gpus; });
  }

  const std::string node = fmt::format("feed-{}", getpid());
  const std::string gpu = "example.com/" + node;
  const std::string here = node + "-here", there = node + "-there";
  MetricsRegistry metrics;
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<kube::Api> api;
  std::vector<std::pair<std::string, std::string>> pods;
  std::optional<ClusterFeed> feed;
};

TEST_F(RealFeed, counts_what_pods_of_every_scheduler_take) {
  create_pod(there, "bound-at-birth", 1, "another", node);
  feed->start();
  ASSERT_TRUE(eventually([&] { return feed->has_synced(); }));
  EXPECT_EQ(used(), 1) << "from the list";

  create_pod(here, "others", 2, "another");
  bind(here, "others");
  EXPECT_TRUE(comes_to_use(3)) << used() << ": a pod that another scheduler bound";
  create_pod(there, "own", 4, "default-scheduler");
  EXPECT_TRUE(comes_to_use(7)) << used() << ": a pod that kube-scheduler bound";

  // No kubelet ends it: it terminates until it is deleted by force.
  ASSERT_TRUE(api->remove(kube::kPods, here, "others", {.grace_period_seconds = 600}));
  const auto pod = api->get(kube::kPods, here, "others");
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_TRUE((*pod)["metadata"].contains("deletionTimestamp"));
  const std::string version = (*pod)["metadata"]["resourceVersion"];
  // The watch of pods has passed the deletion when a reservation of that version ends.
  feed->with_cluster([&](Cluster& cluster) {
    placement::Shape shape;
    shape.requests = {{gpu, 1}};
    cluster.reserve("x/y", cluster.tree().find(node), cluster.acquire(shape));
    cluster.written("x/y", version);
  });
  EXPECT_TRUE(comes_to_use(7)) << used() << ": a terminating pod";
  end(here, "others");
  EXPECT_TRUE(comes_to_use(5)) << used() << ": a deleted pod";

  // A pod that has ended takes nothing: it leaves the selector of the watch.
  const auto done =
      api->patch(kube::kPods, there, "own", kube::PatchType::kMerge, {{"status", {{"phase", "Succeeded"}}}}, "status");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(comes_to_use(1)) << used() << ": a pod that succeeded";

  end(there, "bound-at-birth");
  EXPECT_TRUE(comes_to_use(0)) << used();
  ASSERT_TRUE(api->remove(kube::kNodes, "", node));
  EXPECT_TRUE(comes_to_use(-1)) << used() << ": a deleted node";
}

}  // namespace
}  // namespace lockstep::job::real_feed_test
