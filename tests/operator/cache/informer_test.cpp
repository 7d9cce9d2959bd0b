// Store and Informer: snapshots, indexes, changes, and objects that cannot be read.
#include "operator/cache/informer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "operator/api/pod.h"
#include "tests/operator/kube/fake_api.h"

namespace lockstep::cache {
namespace {

using kube::Json;
using kube::ListPage;
using kube::WatchEvent;
using kube::WatchEventType;

api::Pod pod(const std::string& name, const std::string& uid, const std::string& version, const std::string& job = "") {
  api::Pod result;
  result.meta.name = name;
  result.meta.name_space = "x";
  result.meta.uid = uid;
  result.meta.resource_version = version;
  if (!job.empty()) result.meta.labels[api::kLabelJobUid] = job;
  return result;
}

Store<api::Pod> indexed_store() {
  return Store<api::Pod>(
      [](const api::Pod& object) { return std::vector<std::string>{object.meta.label(api::kLabelJobUid)}; });
}

template <typename T>
std::string names(const std::vector<std::shared_ptr<const T>>& objects) {
  std::string text;
  for (const auto& object : objects) text += object->meta.name;
  return text;
}

TEST(Store, finds_by_key_uid_and_index_as_objects_come_change_and_go) {
  auto store = indexed_store();
  store.put(pod("a", "ua", "1", "j1"), "1");
  store.put(pod("b", "ub", "2", "j1"), "2");
  store.put(pod("c", "uc", "3"), "3");
  EXPECT_EQ(names(store.by_index("j1")), "ab");
  EXPECT_TRUE(store.by_index("").empty());
  EXPECT_EQ(store.get_by_uid("ub")->meta.name, "b");
  store.put(pod("b", "ub2", "4", "j2"), "4");  // recreated under the same name
  EXPECT_EQ(names(store.by_index("j1")), "a");
  EXPECT_EQ(names(store.by_index("j2")), "b");
  EXPECT_EQ(store.get_by_uid("ub"), nullptr);
  const auto gone = store.remove({"x", "a"}, "5");
  EXPECT_EQ(gone.before->meta.name, "a");
  EXPECT_TRUE(store.by_index("j1").empty());
  EXPECT_EQ(store.observed(), "5");
  EXPECT_EQ(store.size(), 2U);
}

TEST(Store, a_snapshot_outlives_changes_of_its_object) {
  auto store = indexed_store();
  store.put(pod("a", "ua", "1"), "1");
  const auto held = store.get({"x", "a"});
  store.remove({"x", "a"}, "2");
  EXPECT_EQ(held->meta.resource_version, "1");
}

TEST(Store, a_list_announces_deleted_objects_and_no_unchanged_ones) {
  auto store = indexed_store();
  for (const auto& name : {"a", "b", "c"}) store.put(pod(name, std::string("u") + name, "1", "j"), "1");
  std::vector<api::Pod> list;
  list.push_back(pod("a", "ua", "1", "j"));  // as it was
  list.push_back(pod("b", "ub", "7", "j"));  // changed
  list.push_back(pod("d", "ud", "8", "j"));  // new
  std::string told;
  for (const auto& change : store.replace(std::move(list), {}, "9")) {
    told += fmt::format("{}>{} ", change.before ? change.before->meta.name : "",
                        change.after ? change.after->meta.name : "");
  }
  EXPECT_EQ(told, "b>b c> >d ");
  EXPECT_EQ(names(store.by_index("j")), "abd");
  EXPECT_EQ(store.get_by_uid("uc"), nullptr);
  EXPECT_EQ(store.observed(), "9");
}

TEST(Store, readers_see_a_replacement_whole) {
  auto store = indexed_store();
  std::atomic<bool> over = false;
  std::jthread writer([&] {
    for (int i = 1; i <= 300; ++i) {
      std::vector<api::Pod> list;
      for (int k = 0; k < 20; ++k)
        list.push_back(pod(fmt::format("p{}", k), fmt::format("u{}", k), fmt::format("{}", i), "j"));
      store.replace(std::move(list), {}, fmt::format("{}", i));
    }
    over = true;
  });
  while (!over) {
    const auto seen = store.by_index("j");
    for (const auto& object : seen) EXPECT_EQ(object->meta.resource_version, seen[0]->meta.resource_version);
    EXPECT_TRUE(seen.empty() || seen.size() == 20);
  }
}

// An informer over a fake API whose watch the test plays.
class InformerTest : public ::testing::Test {
 protected:
  static Json json(const std::string& name, int version) {
    return {{"metadata",
             {{"name", name}, {"namespace", "x"}, {"uid", "u" + name}, {"resourceVersion", std::to_string(version)}}}};
  }
  void SetUp() override {
    api.on_list = [this](const kube::ListOptions&) -> Result<ListPage> {
      const std::lock_guard guard(mutex);
      if (lists.empty()) return fail(ErrorCode::kUnavailable, "no list");
      ListPage page = lists.front();
      lists.erase(lists.begin());
      return page;
    };
    api.on_watch = [this](const kube::WatchOptions&, const std::function<bool(WatchEvent)>& on_event,
                          std::stop_token stop) -> Status {
      for (auto& event : std::exchange(events, {})) on_event(std::move(event));
      std::unique_lock lock(mutex);
      if (!lists.empty()) return fail(ErrorCode::kGone, "list again");
      played = true;
      changed.notify_all();
      changed.wait(lock, stop, [] { return false; });
      return fail(ErrorCode::kCancelled, "told to stop");
    };
  }
  void run() {
    informer.start();
    {
      std::unique_lock lock(mutex);
      EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(10), [&] { return played; }));
    }
    EXPECT_TRUE(informer.has_synced());
    informer.stop();
  }

  kube::testing::FakeApi api;
  MetricsRegistry metrics;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::vector<ListPage> lists;  // guarded by the mutex while the informer runs
  bool played = false;          // so is this: every list is used up, and the events of the last watch are out
  std::vector<WatchEvent> events;
  std::vector<std::string> changes;
  Informer<api::Pod> informer{api,
                              SystemClock::instance(),
                              metrics,
                              kube::kPods,
                              &api::parse_pod,
                              {},
                              [this](const auto& before, const auto& after) {
                                changes.push_back(fmt::format("{}>{}", before ? before->meta.resource_version : "",
                                                              after ? after->meta.resource_version : ""));
                              }};
};

TEST_F(InformerTest, callbacks_get_the_object_before_and_after) {
  lists.push_back({{json("a", 1)}, "10", ""});
  events.push_back({WatchEventType::kModified, json("a", 11)});
  events.push_back({WatchEventType::kAdded, json("b", 12)});
  events.push_back({WatchEventType::kDeleted, json("a", 13)});
  events.push_back({WatchEventType::kBookmark, json("", 20)});
  run();
  EXPECT_EQ(changes, (std::vector<std::string>{">1", "1>11", ">12", "11>"}));
  EXPECT_EQ(informer.store().observed(), "20");
  EXPECT_EQ(informer.store().size(), 1U);
}

TEST_F(InformerTest, an_unreadable_object_is_counted_and_keeps_its_last_readable_form) {
  Json odd = json("a", 11);
  odd["status"]["phase"] = 7;
  Json nameless = json("", 12);
  lists.push_back({{json("a", 1)}, "10", ""});
  events.push_back({WatchEventType::kModified, odd});
  events.push_back({WatchEventType::kAdded, nameless});
  run();
  EXPECT_EQ(informer.store().get({"x", "a"})->meta.resource_version, "1");
  EXPECT_EQ(informer.store().observed(), "12");
  EXPECT_EQ(informer.store().size(), 1U);
  EXPECT_NE(metrics.text().find("lockstep_cache_unreadable_total{resource=\"pods\"} 2"), std::string::npos);
}

TEST_F(InformerTest, a_relist_deletes_missing_objects_and_keeps_unreadable_ones) {
  Json odd = json("b", 30);
  odd["status"]["phase"] = 7;
  lists.push_back({{json("a", 1), json("b", 2)}, "10", ""});
  lists.push_back({{odd}, "40", ""});
  events.push_back({WatchEventType::kBookmark, json("", 20)});
  run();
  EXPECT_EQ(informer.store().get({"x", "a"}), nullptr);
  ASSERT_NE(informer.store().get({"x", "b"}), nullptr);
  EXPECT_EQ(informer.store().get({"x", "b"})->meta.resource_version, "2");
  EXPECT_EQ(changes.back(), "1>");
}

TEST_F(InformerTest, is_not_synced_before_the_last_page) {
  EXPECT_FALSE(informer.has_synced());
  lists.push_back({{json("a", 1)}, "10", "more"});
  lists.push_back({{json("b", 2)}, "10", ""});
  run();
  EXPECT_TRUE(informer.has_synced());
  EXPECT_EQ(informer.store().size(), 2U);
}

}  // namespace
}  // namespace lockstep::cache
