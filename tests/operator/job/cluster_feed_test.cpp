// The feed over a server whose texts the test decides: what it counts, when it tells, and what a broken text does.
#include "operator/job/cluster_feed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>

#include "operator/placement/pod_scan.h"
#include "tests/operator/kube/fake_api.h"

namespace lockstep::job::cluster_feed_test {
namespace {

using kube::Json;
using kube::WatchEventType;
using placement::Cluster;

constexpr const char* kGpu = "nvidia.com/gpu";
const placement::Profile kRacks{"racks", {{"rack", "rack"}}};

// Lists and watches of texts, by kind.
class TextServer final : public kube::testing::FakeApi {
 public:
  struct Event {
    WatchEventType type;
    std::string text;
    bool gone = false;  // no event: the watch ends, since the version is too old
  };
  struct Side {
    std::vector<std::string> items;
    std::string version = "100";
    std::function<void()> during_list;  // before the first item, and after it
    std::deque<Event> events;
    int lists = 0, watches = 0;  // all lists; watches under way
    kube::ListOptions list;
    kube::WatchOptions watch;
  };

  Result<kube::ListEnd> list_text(const kube::Resource& resource, const kube::ListOptions& options,
                                  const std::function<void(std::string_view)>& on_item) override {
    Side side;
    {
      const std::lock_guard guard(mutex_);
      Side& known = sides_[resource.plural];
      ++known.lists;
      known.list = options;
      side = known;
    }
    if (side.during_list) side.during_list();
    for (std::size_t i = 0; i < side.items.size(); ++i) {
      on_item(side.items[i]);
      if (i == 0 && side.during_list) side.during_list();
    }
    return kube::ListEnd{side.version, ""};
  }
  Status watch_text(const kube::Resource& resource, const kube::WatchOptions& options,
                    const std::function<bool(WatchEventType, std::string_view)>& on_event,
                    std::stop_token stop) override {
    std::unique_lock lock(mutex_);
    Side& side = sides_[resource.plural];
    side.watch = options;
    ++side.watches;
    const auto ended = [&](Status status) {
      --side.watches;
      return status;
    };
    while (wake_.wait(lock, stop, [&] { return !side.events.empty(); })) {
      const Event event = side.events.front();
      side.events.pop_front();
      if (event.gone) return ended(fail(ErrorCode::kGone, "too old"));
      lock.unlock();
      const bool more = on_event(event.type, event.text);
      lock.lock();
      if (!more) return ended({});
    }
    return ended(fail(ErrorCode::kCancelled, "stopped"));
  }

  // Changes the lists to come, or reads what was asked.
  template <typename F>
  auto of(const kube::Resource& resource, F&& f) {
    const std::lock_guard guard(mutex_);
    return f(sides_[resource.plural]);
  }
  void say(const kube::Resource& resource, WatchEventType type, const std::string& text) {
    of(resource, [&](Side& side) { side.events.push_back({type, text}); });
    wake_.notify_all();
  }
  void forget_history(const kube::Resource& resource) {
    of(resource, [&](Side& side) { side.events.push_back({WatchEventType::kBookmark, "", true}); });
    wake_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::map<std::string, Side> sides_;
};

Json node(const std::string& name, const Json& labels = Json::object(), int gpus = 8) {
  return {{"metadata", {{"name", name}, {"uid", "uid-" + name}, {"resourceVersion", "101"}, {"labels", labels}}},
          {"status",
           {{"allocatable", {{"cpu", "96"}, {kGpu, std::to_string(gpus)}, {"pods", "110"}}},
            {"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
}

Json pod(const std::string& name, const std::string& on, int gpus, const std::string& version = "101") {
  Json made{
      {"metadata", {{"name", name}, {"namespace", "ns-" + name}, {"uid", "uid-" + name}, {"resourceVersion", version}}},
      {"spec", {{"containers", Json::array({{{"resources", {{"limits", {{kGpu, std::to_string(gpus)}}}}}}})}}},
      {"status", {{"phase", on.empty() ? "Pending" : "Running"}}}};
  if (!on.empty()) made["spec"]["nodeName"] = on;
  return made;
}

Json beyond_bounds(Json pod) {
  for (int i = 0; i < 65; ++i) {
    pod["spec"]["containers"][0]["resources"]["limits"][fmt::format("example.com/r{}", i)] = "1";
  }
  return pod;
}

std::string bookmark(const std::string& version) {
  return Json{{"metadata", {{"resourceVersion", version}}}}.dump();
}

placement::Shape gpu_shape(int gpus) {
  placement::Shape shape;
  shape.requests = {{kGpu, gpus}, {"pods", 1}};
  return shape;
}

class ClusterFeedTest : public ::testing::Test {
 protected:
  ClusterFeedTest() {
    for (const char* name : {"a", "b"}) nodes.push_back(node(name, {{"rack", "r1"}}).dump());
  }
  ~ClusterFeedTest() override { feed.stop(); }

  // `lists`: how many are complete before a test goes on.
  void start(int lists = 2) {
    list(kube::kNodes, nodes);
    list(kube::kPods, pods);
    feed.start();
    await(lists);
    ASSERT_TRUE(feed.has_synced());
  }
  void list(const kube::Resource& resource, const std::vector<std::string>& items, const std::string& version = "100") {
    server.of(resource, [&](TextServer::Side& side) {
      side.items = items;
      side.version = version;
    });
  }
  // Lists again, after an event: a watch that says nothing would cost the reflector a pause.
  void list_again(const kube::Resource& resource, const std::vector<std::string>& items) {
    list(resource, items, "200");
    server.say(resource, WatchEventType::kBookmark, bookmark("150"));
    server.forget_history(resource);
  }
  void put(const Json& pod) { server.say(kube::kPods, WatchEventType::kModified, pod.dump()); }
  void remove(const Json& pod) { server.say(kube::kPods, WatchEventType::kDeleted, pod.dump()); }

  // Waits until on_change was called this many times in all.
  void await(int calls) {
    std::unique_lock lock(mutex);
    const bool told = heard.wait_for(lock, std::chrono::seconds(10), [&] { return changes >= calls; });
    EXPECT_TRUE(told) << changes << " calls instead of " << calls;
  }
  int told() {
    const std::lock_guard guard(mutex);
    return changes;
  }
  std::int64_t used(const std::string& node) {
    std::int64_t used = -1;  // no such node
    feed.with_cluster([&](Cluster& cluster) {
      const auto id = cluster.tree().find(node);
      if (id == placement::kNone) return;
      for (const auto& amount : cluster.amounts(id)) {
        if (amount.name == kGpu) used = amount.used;
      }
    });
    return used;
  }
  int lists(const kube::Resource& resource) {
    return server.of(resource, [](TextServer::Side& side) { return side.lists; });
  }
  bool measured(const std::string& line) { return metrics.text().find(line + "\n") != std::string::npos; }

  TextServer server;
  ManualClock clock;
  MetricsRegistry metrics;
  std::vector<std::string> nodes, pods;
  std::mutex mutex;
  std::condition_variable heard;
  int changes = 0;                // protected by mutex
  std::atomic<bool> asks = true;  // on_change asks the cluster, which would not return under the mutex
  const placement::SickSigns signs = *placement::SickSigns::of_flags({"condition:XIDErrors=True"});
  ClusterFeed feed{server, clock, metrics, kRacks, signs, [this] {
                     if (asks) feed.with_cluster([](Cluster&) {});
                     const std::lock_guard guard(mutex);
                     ++changes;
                     heard.notify_all();
                   }};
};

TEST_F(ClusterFeedTest, counts_the_pods_of_all_namespaces) {
  pods = {pod("p", "a", 3).dump(), pod("q", "a", 2).dump(), pod("waits", "", 8).dump()};
  EXPECT_FALSE(feed.has_synced());
  start();
  EXPECT_EQ(used("a"), 5);
  EXPECT_EQ(used("b"), 0);
  EXPECT_TRUE(measured("lockstep_placement_nodes 2")) << metrics.text();
  EXPECT_TRUE(measured("lockstep_placement_pods 3")) << metrics.text();
}

TEST_F(ClusterFeedTest, asks_for_all_pods_that_are_not_terminal) {
  start();
  put(pod("p", "a", 1));
  await(3);
  server.of(kube::kPods, [](TextServer::Side& side) {
    EXPECT_EQ(side.list.name_space + side.watch.name_space, "");
    EXPECT_EQ(side.list.label_selector + side.watch.label_selector, "");
    EXPECT_EQ(side.list.field_selector, "status.phase!=Succeeded,status.phase!=Failed");
    EXPECT_EQ(side.watch.field_selector, side.list.field_selector);
    EXPECT_EQ(side.list.fields, &placement::scanned_pod_fields());
    EXPECT_EQ(side.watch.fields, side.list.fields);
  });
}

TEST_F(ClusterFeedTest, follows_pods_that_are_bound_and_deleted) {
  start();
  put(pod("p", "", 3));  // counts nowhere yet
  put(pod("p", "a", 3, "102"));
  await(3);
  EXPECT_EQ(used("a"), 3);
  remove(pod("p", "a", 3, "103"));
  await(4);
  EXPECT_EQ(used("a"), 0);
  EXPECT_EQ(told(), 4);
  EXPECT_TRUE(measured("lockstep_placement_pods 0"));
}

TEST_F(ClusterFeedTest, follows_nodes_that_come_change_and_go) {
  start();
  const auto say = [&](WatchEventType type, const Json& node) { server.say(kube::kNodes, type, node.dump()); };
  say(WatchEventType::kAdded, node("c"));
  await(3);
  EXPECT_TRUE(measured("lockstep_placement_nodes 3"));
  Json cordoned = node("c");
  cordoned["spec"]["unschedulable"] = true;
  say(WatchEventType::kModified, cordoned);
  await(4);
  say(WatchEventType::kModified, node("a", {{"rack", "r2"}}));
  await(5);
  say(WatchEventType::kDeleted, node("c"));
  await(6);
  EXPECT_EQ(used("c"), -1);
  EXPECT_TRUE(measured("lockstep_placement_nodes 2"));
  EXPECT_EQ(told(), 6);
}

TEST_F(ClusterFeedTest, a_node_is_sick_from_the_list_on_and_by_an_event) {
  const auto condition = [](Json one, const char* status) {
    one["status"]["conditions"].push_back({{"type", "XIDErrors"}, {"status", status}});
    return one;
  };
  const auto sickness = [&](const char* name) {
    std::string sign;
    feed.with_cluster([&](Cluster& cluster) { sign = cluster.sickness(cluster.tree().find(name)); });
    return sign;
  };
  nodes.push_back(condition(node("c"), "True").dump());
  start();
  EXPECT_EQ(sickness("c"), "condition:XIDErrors=True");
  server.say(kube::kNodes, WatchEventType::kModified, condition(node("c"), "False").dump());
  server.say(kube::kNodes, WatchEventType::kModified, condition(node("a", {{"rack", "r1"}}), "True").dump());
  await(4);
  EXPECT_EQ(sickness("c"), "");
  EXPECT_EQ(sickness("a"), "condition:XIDErrors=True");
}

TEST_F(ClusterFeedTest, says_nothing_of_an_event_that_no_decision_reads) {
  pods = {pod("p", "a", 3).dump()};
  start();
  Json ready = pod("p", "a", 3, "102");
  ready["status"]["conditions"] = Json::array({{{"type", "Ready"}, {"status", "True"}}});
  put(ready);
  server.say(kube::kPods, WatchEventType::kBookmark, bookmark("103"));
  Json alive = node("a", {{"rack", "r1"}});
  alive["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T00:00:00Z";
  server.say(kube::kNodes, WatchEventType::kModified, alive.dump());
  put(pod("q", "b", 1, "104"));
  server.say(kube::kNodes, WatchEventType::kAdded, node("c").dump());
  await(4);
  EXPECT_EQ(told(), 4);
}

TEST_F(ClusterFeedTest, a_later_list_removes_what_it_does_not_hold) {
  pods = {pod("p", "a", 3).dump(), pod("q", "a", 2).dump()};
  start();
  list_again(kube::kPods, {pods[1]});
  await(3);
  EXPECT_EQ(used("a"), 2);
  list_again(kube::kNodes, {nodes[0]});
  await(4);
  EXPECT_EQ(used("b"), -1);
  EXPECT_EQ(lists(kube::kPods), 2);
  EXPECT_EQ(lists(kube::kNodes), 2);
}

TEST_F(ClusterFeedTest, a_list_with_a_broken_text_removes_nothing) {
  pods = {pod("p", "a", 3).dump(), pod("q", "a", 2).dump()};
  start();
  int calls = 2;
  const std::string whole = pods[1];
  for (const std::string& broken :
       {std::string(), std::string("{"), std::string("[]"), std::string(R"({"metadata":{}})"),
        whole.substr(0, whole.size() - 1), std::string("\xff\xfe"), std::string(5000, '[')}) {
    list_again(kube::kPods, {broken, pods[1]});
    await(++calls);
    EXPECT_EQ(used("a"), 5) << broken.size() << " bytes";
    list_again(kube::kNodes, {broken, nodes[0]});
    await(++calls);
    EXPECT_EQ(used("b"), 0) << broken.size() << " bytes";
  }
  EXPECT_TRUE(measured(R"(lockstep_cache_unreadable_total{resource="pods"} 7)")) << metrics.text();
  EXPECT_TRUE(measured(R"(lockstep_cache_unreadable_total{resource="nodes"} 7)")) << metrics.text();
  list_again(kube::kPods, {pods[1]});
  await(++calls);
  EXPECT_EQ(used("a"), 2);
  list_again(kube::kNodes, {nodes[0]});
  await(++calls);
  EXPECT_EQ(used("b"), -1);
}

TEST_F(ClusterFeedTest, a_broken_text_of_a_watch_changes_nothing) {
  pods = {pod("p", "a", 3).dump()};
  start();
  for (const WatchEventType type : {WatchEventType::kAdded, WatchEventType::kModified, WatchEventType::kDeleted}) {
    for (const auto* kind : {&kube::kPods, &kube::kNodes}) {
      // The reflector passes on what has a version.
      for (const char* broken :
           {R"({"metadata":{"resourceVersion":"110"}})", R"({"metadata":{"resourceVersion":"110"},"spec":)"}) {
        server.say(*kind, type, broken);
      }
    }
  }
  put(pod("q", "b", 1, "111"));
  server.say(kube::kNodes, WatchEventType::kAdded, node("c").dump());
  await(4);
  EXPECT_EQ(told(), 4);
  EXPECT_EQ(used("a"), 3);
  EXPECT_TRUE(measured(R"(lockstep_cache_unreadable_total{resource="pods"} 6)")) << metrics.text();
  EXPECT_TRUE(measured(R"(lockstep_cache_unreadable_total{resource="nodes"} 6)")) << metrics.text();
}

TEST_F(ClusterFeedTest, a_pod_beyond_the_bounds_hides_no_other_one) {
  pods = {pod("p", "a", 3).dump(), pod("q", "a", 2).dump(), beyond_bounds(pod("r", "b", 1)).dump()};
  start();
  EXPECT_EQ(used("b"), 0);
  list_again(kube::kPods, {pods[1], pods[2]});
  await(3);
  EXPECT_EQ(used("a"), 2);
}

TEST_F(ClusterFeedTest, a_pod_that_is_deleted_beyond_the_bounds_is_gone) {
  pods = {pod("p", "a", 3).dump()};
  start();
  put(beyond_bounds(pod("p", "a", 3, "102")));
  put(pod("q", "b", 1, "103"));
  await(3);
  EXPECT_EQ(used("a"), 3);
  remove(beyond_bounds(pod("p", "a", 3, "104")));
  await(4);
  EXPECT_EQ(used("a"), 0);
}

TEST_F(ClusterFeedTest, a_selector_that_nodes_were_not_scanned_for_lists_them_once) {
  nodes[1] = node("b", {{"rack", "r1"}, {"disk", "fast"}}).dump();
  start();
  server.of(kube::kNodes,
            [&](TextServer::Side& side) { side.during_list = [&] { feed.with_cluster([](Cluster&) {}); }; });
  placement::Shape shape = gpu_shape(2);
  shape.node_selector = {{"disk", "fast"}};
  placement::ShapeId id = 0;
  feed.with_cluster([&](Cluster& cluster) { id = cluster.acquire(shape); });
  for (int i = 0; i < 100; ++i) feed.with_cluster([](Cluster&) {});
  await(3);
  const auto room = [&] {
    std::vector<std::int32_t> fits;
    feed.with_cluster([&](Cluster& cluster) {
      if (const auto fit = cluster.fit(id)) fits.assign(fit->begin(), fit->end());
    });
    return fits;
  };
  EXPECT_EQ(room(), (std::vector<std::int32_t>{0, 4}));
  EXPECT_EQ(lists(kube::kNodes), 2);
  // Events are scanned for the label as well.
  server.say(kube::kNodes, WatchEventType::kModified, node("a", {{"rack", "r1"}, {"disk", "fast"}}).dump());
  await(4);
  EXPECT_EQ(room(), (std::vector<std::int32_t>{4, 4}));
  EXPECT_EQ(lists(kube::kNodes), 2);
  EXPECT_EQ(lists(kube::kPods), 1);
}

TEST_F(ClusterFeedTest, a_selector_that_comes_during_a_list_lists_once_more) {
  nodes[1] = node("b", {{"rack", "r1"}, {"disk", "fast"}}).dump();
  placement::Shape shape = gpu_shape(2);
  shape.node_selector = {{"disk", "fast"}};
  std::atomic<int> calls = 0;
  server.of(kube::kNodes, [&](TextServer::Side& side) {
    side.during_list = [&] {
      if (++calls == 2) feed.with_cluster([&](Cluster& cluster) { cluster.acquire(shape); });
    };
  });
  asks = false;  // the end of the list asks for another one by itself
  start(3);
  EXPECT_EQ(lists(kube::kNodes), 2);
  feed.with_cluster([&](Cluster& cluster) {
    const auto fit = cluster.fit(cluster.acquire(shape));
    ASSERT_TRUE(fit) << fit.error().message;
    EXPECT_EQ((*fit)[1], 4);
  });
}

TEST_F(ClusterFeedTest, a_reservation_ends_when_the_watch_of_pods_passes_its_version) {
  start();
  feed.with_cluster([](Cluster& cluster) {
    cluster.reserve("x/p", cluster.tree().find("a"), cluster.acquire(gpu_shape(3)));
    cluster.written("x/p", "105");
  });
  EXPECT_EQ(used("a"), 3);
  // Versions of the nodes' watch say nothing about pods.
  Json later = node("c");
  later["metadata"]["resourceVersion"] = "106";
  server.say(kube::kNodes, WatchEventType::kAdded, later.dump());
  await(3);
  server.say(kube::kPods, WatchEventType::kBookmark, bookmark("104"));
  put(pod("q", "b", 1, "104"));
  await(4);
  EXPECT_EQ(used("a"), 3);
  server.say(kube::kPods, WatchEventType::kBookmark, bookmark("105"));
  await(5);
  EXPECT_EQ(used("a"), 0);
}

TEST_F(ClusterFeedTest, a_reservation_ends_with_any_later_event_and_any_later_list) {
  start();
  const auto reserve = [&](const std::string& version) {
    feed.with_cluster([&](Cluster& cluster) {
      cluster.reserve("x/p", cluster.tree().find("a"), cluster.acquire(gpu_shape(3)));
      cluster.written("x/p", version);
    });
  };
  reserve("105");
  put(pod("q", "", 1, "105"));
  await(3);
  EXPECT_EQ(used("a"), 0);
  reserve("107");
  remove(pod("q", "", 1, "107"));
  await(4);
  EXPECT_EQ(used("a"), 0);
  reserve("109");
  server.say(kube::kPods, WatchEventType::kModified, beyond_bounds(pod("r", "", 1, "109")).dump());
  await(5);
  EXPECT_EQ(used("a"), 0);
  reserve("200");
  list_again(kube::kPods, {});
  await(6);
  EXPECT_EQ(used("a"), 0);
}

TEST_F(ClusterFeedTest, has_synced_with_both_lists_alone) {
  for (const auto* kind : {&kube::kPods, &kube::kNodes}) {
    server.of(*kind, [&](TextServer::Side& side) {
      side.during_list = [this, kind] {
        if (kind == &kube::kPods) await(1);  // the nodes are listed
        EXPECT_FALSE(feed.has_synced());
      };
    });
  }
  pods = {pod("p", "a", 3).dump()};
  start();
}

TEST_F(ClusterFeedTest, watches_nothing_after_it_was_stopped) {
  start();
  put(pod("p", "a", 1));
  server.say(kube::kNodes, WatchEventType::kAdded, node("c").dump());
  await(4);
  feed.stop();
  for (const auto* kind : {&kube::kPods, &kube::kNodes}) {
    EXPECT_EQ(server.of(*kind, [](TextServer::Side& side) { return side.watches; }), 0) << kind->plural;
  }
  feed.stop();
  EXPECT_EQ(used("a"), 1);
}

}  // namespace
}  // namespace lockstep::job::cluster_feed_test
