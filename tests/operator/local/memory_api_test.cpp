// Behaviour that the contract suite of the API seam leaves open, and features of the in-memory store alone.
#include "operator/local/memory_api.h"

#include <gtest/gtest.h>

#include <thread>

#include "operator/local/selectors.h"

namespace lockstep::local {
namespace {

using Json = nlohmann::json;
using kube::kConfigMaps;
using kube::kPods;
using kube::kTrainingJobs;
using kube::WatchEventType;

Json named(const std::string& name, Json rest = Json::object()) {
  rest["metadata"]["name"] = name;
  return rest;
}

std::string numbered(std::string name, int i) {
  return name.append(std::to_string(i));
}
std::string uid(const Json& object) {
  return object["metadata"]["uid"];
}
std::string version(const Json& object) {
  return object["metadata"]["resourceVersion"];
}

// Events until the watch has seen `count` of them (bookmarks not counted).
std::vector<kube::WatchEvent> watched(MemoryApi& api, const kube::Resource& resource, kube::WatchOptions options,
                                      size_t count) {
  std::vector<kube::WatchEvent> events;
  const Status status = api.watch(resource, options,
                                  [&](kube::WatchEvent event) {
                                    if (event.type != WatchEventType::kBookmark) events.push_back(std::move(event));
                                    return events.size() < count;
                                  },
                                  {});
  EXPECT_TRUE(status.ok()) << status.error().message;
  return events;
}

TEST(MemoryApi, versions_grow_by_one_over_all_resources) {
  MemoryApi api;
  const auto a = api.create(kConfigMaps, "default", named("a"));
  const auto b = api.create(kPods, "default", named("b"));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(std::stoull(version(*b)), std::stoull(version(*a)) + 1);
  EXPECT_EQ(std::to_string(api.version()), version(*b));
}

TEST(MemoryApi, a_write_without_a_change_is_no_event) {
  MemoryApi api;
  const auto a = api.create(kConfigMaps, "default", named("a", {{"data", {{"k", "v"}}}}));
  const auto again = api.replace(kConfigMaps, "default", "a", *a);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(version(*again), version(*a));
}

TEST(MemoryApi, generation_counts_changes_of_the_specification_only) {
  MemoryApi api;
  auto job = api.create(kTrainingJobs, "default", named("j", {{"spec", {{"nodes", 1}}}, {"status", {{"state", "x"}}}}));
  ASSERT_TRUE(job.ok());
  EXPECT_EQ((*job)["metadata"]["generation"], 1);
  EXPECT_FALSE(job->contains("status"));
  Json changed = *job;
  changed["status"] = {{"state", "Running"}};
  changed["spec"]["nodes"] = 9;
  job = api.replace(kTrainingJobs, "default", "j", changed, "status");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ((*job)["metadata"]["generation"], 1);
  EXPECT_EQ((*job)["spec"]["nodes"], 1);
  EXPECT_EQ((*job)["status"]["state"], "Running");
  job = api.patch(kTrainingJobs, "default", "j", kube::PatchType::kMerge,
                  {{"spec", {{"nodes", 2}}}, {"status", {{"state", "lost"}}}});
  ASSERT_TRUE(job.ok());
  EXPECT_EQ((*job)["metadata"]["generation"], 2);
  EXPECT_EQ((*job)["status"]["state"], "Running");
}

TEST(MemoryApi, a_bound_pod_waits_for_its_runtime_and_an_unbound_one_goes_at_once) {
  MemoryApi api;
  ASSERT_TRUE(api.create(kPods, "default", named("free")).ok());
  ASSERT_TRUE(api.create(kPods, "default", named("bound", {{"spec", {{"nodeName", "n"}}}})).ok());
  ASSERT_TRUE(api.remove(kPods, "default", "free").ok());
  ASSERT_TRUE(api.remove(kPods, "default", "bound").ok());
  EXPECT_EQ(api.get(kPods, "default", "free").error().code, ErrorCode::kNotFound);
  const auto leaving = api.get(kPods, "default", "bound");
  ASSERT_TRUE(leaving.ok());
  EXPECT_TRUE((*leaving)["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ((*leaving)["metadata"]["deletionGracePeriodSeconds"], 30);
  ASSERT_TRUE(api.remove(kPods, "default", "bound", {.grace_period_seconds = 0}).ok());
  EXPECT_FALSE(api.get(kPods, "default", "bound").ok());
}

TEST(MemoryApi, dependents_go_with_their_owner_even_those_created_too_late) {
  MemoryApi api;
  const auto job = api.create(kTrainingJobs, "default", named("j"));
  const Json owned = {{"metadata", {{"ownerReferences", {{{"uid", uid(*job)}, {"kind", "TrainingJob"}}}}}}};
  ASSERT_TRUE(api.create(kConfigMaps, "default", named("record", owned)).ok());
  ASSERT_TRUE(api.create(kConfigMaps, "default", named("other")).ok());
  ASSERT_TRUE(api.remove(kTrainingJobs, "default", "j").ok());
  EXPECT_FALSE(api.get(kConfigMaps, "default", "record").ok());
  EXPECT_TRUE(api.get(kConfigMaps, "default", "other").ok());
  ASSERT_TRUE(api.create(kConfigMaps, "default", named("late", owned)).ok());
  EXPECT_FALSE(api.get(kConfigMaps, "default", "late").ok());
}

TEST(MemoryApi, a_watch_tells_objects_that_enter_and_leave_its_selector) {
  MemoryApi api;
  const std::string start = std::to_string(api.version());
  ASSERT_TRUE(api.create(kConfigMaps, "default", named("a")).ok());
  const auto label = [&](Json value) {
    ASSERT_TRUE(
        api.patch(kConfigMaps, "default", "a", kube::PatchType::kMerge, {{"metadata", {{"labels", {{"x", value}}}}}})
            .ok());
  };
  label("1");
  label(nullptr);
  const auto events = watched(api, kConfigMaps, {.label_selector = "x=1", .resource_version = start}, 2);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].type, WatchEventType::kAdded);
  EXPECT_EQ(events[1].type, WatchEventType::kDeleted);
}

TEST(MemoryApi, a_version_older_than_the_history_is_gone) {
  MemoryApi api(SystemClock::instance(), {.history = 4});
  const std::string start = std::to_string(api.version());
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(api.create(kConfigMaps, "default", named(numbered("c", i))).ok());
  const auto watch = [&](const std::string& from) {
    return api.watch(kConfigMaps, {.resource_version = from}, [](kube::WatchEvent) { return false; }, {});
  };
  EXPECT_EQ(watch(start).error().code, ErrorCode::kGone);
  EXPECT_TRUE(watch(std::to_string(api.version() - 4)).ok());
  EXPECT_EQ(watch(std::to_string(api.version() - 5)).error().code, ErrorCode::kGone);
}

TEST(MemoryApi, a_watch_ends_with_a_bookmark_when_its_time_is_over) {
  MemoryApi api;
  ASSERT_TRUE(api.create(kConfigMaps, "default", named("a")).ok());
  const std::string now = std::to_string(api.version());
  std::vector<kube::WatchEvent> events;
  ASSERT_TRUE(api.watch(kConfigMaps, {.resource_version = now, .timeout_seconds = 1},
                        [&](kube::WatchEvent event) {
                          events.push_back(std::move(event));
                          return true;
                        },
                        {})
                  .ok());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].type, WatchEventType::kBookmark);
  EXPECT_EQ(version(events[0].object), now);
}

TEST(MemoryApi, stopping_ends_a_waiting_watch) {
  MemoryApi api;
  std::jthread watcher([&](std::stop_token stop) {
    const Status status = api.watch(
        kPods, {}, [](kube::WatchEvent) { return true; }, stop);
    EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  });
  watcher.request_stop();
}

TEST(MemoryApi, pages_belong_to_one_version) {
  MemoryApi api;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(api.create(kConfigMaps, "default", named(numbered("c", i))).ok());
  const auto first = api.list(kConfigMaps, {.limit = 2});
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(api.remove(kConfigMaps, "default", "c4").ok());
  const auto second = api.list(kConfigMaps, {.limit = 2, .continue_token = first->continue_token});
  const auto third = api.list(kConfigMaps, {.limit = 2, .continue_token = second->continue_token});
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->items.size(), 1U);
  EXPECT_EQ(third->items[0]["metadata"]["name"], "c4");
  EXPECT_EQ(third->resource_version, first->resource_version);
  EXPECT_EQ(third->continue_token, "");
  EXPECT_EQ(api.list(kConfigMaps, {.continue_token = "99"}).error().code, ErrorCode::kGone);
}

TEST(MemoryApi, a_token_is_its_pods_for_as_long_as_the_pod_lives) {
  MemoryApi api;
  const auto pod = api.create(kPods, "default", named("p"));
  const std::string token = api.issue_token({"default", "p", uid(*pod)});
  const auto review = [&](const std::string& given) {
    return *api.create(kube::kTokenReviews, "", {{"spec", {{"token", given}, {"audiences", {"lockstep"}}}}});
  };
  const Json good = review(token);
  EXPECT_EQ(good["status"]["authenticated"], true);
  EXPECT_EQ(good["status"]["user"]["extra"]["authentication.kubernetes.io/pod-name"], Json({"p"}));
  EXPECT_EQ(good["status"]["user"]["extra"]["authentication.kubernetes.io/pod-uid"], Json({uid(*pod)}));
  EXPECT_EQ(review("x")["status"]["authenticated"], false);
  ASSERT_TRUE(api.remove(kPods, "default", "p").ok());
  EXPECT_EQ(review(token)["status"]["authenticated"], false);
}

TEST(MemoryApi, events_do_not_pile_up) {
  MemoryApi api(SystemClock::instance(), {.most_events = 3});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(api.create(kube::kEvents, "default", named(numbered("e", i))).ok());
  const auto page = api.list(kube::kEvents, {});
  ASSERT_EQ(page->items.size(), 3U);
  EXPECT_EQ(page->items[0]["metadata"]["name"], "e2");
}

TEST(MemoryApi, bad_input_is_refused_and_never_stored) {
  MemoryApi api;
  for (const Json& bad : {Json(3), Json::array(), named("Upper"), named(""), named("-a"), named("a..b"),
                          Json{{"metadata", 1}}, Json{{"metadata", {{"name", 7}}}},
                          named("a", {{"metadata", {{"labels", {{"k", 1}}}}}}), named("a", {{"kind", "Pod"}})}) {
    EXPECT_EQ(api.create(kConfigMaps, "default", bad).error().code, ErrorCode::kInvalid) << bad;
  }
  EXPECT_EQ(api.list(kConfigMaps, {.label_selector = "a in b"}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(api.list(kConfigMaps, {.field_selector = "spec.x=1"}).error().code, ErrorCode::kInvalid);
  EXPECT_TRUE(api.list(kConfigMaps, {})->items.empty());
}

TEST(Selector, reads_every_form_of_the_grammar) {
  const Json object = {{"metadata", {{"name", "p"}, {"labels", {{"a", "1"}, {"lockstep.dev/job", "j"}}}}},
                       {"spec", {{"nodeName", "n"}}}};
  for (const auto& [labels, fields, want] :
       std::vector<std::tuple<std::string, std::string, bool>>{{"", "", true},
                                                               {"a", "", true},
                                                               {"!a", "", false},
                                                               {"!b", "", true},
                                                               {"a=1,lockstep.dev/job==j", "", true},
                                                               {"a!=1", "", false},
                                                               {"b!=1", "", true},
                                                               {"a in (0, 1)", "", true},
                                                               {"a notin (0,1),a", "", false},
                                                               {"", "metadata.name=p,spec.nodeName=n", true},
                                                               {"", "spec.nodeName!=", true},
                                                               {"", "status.phase=Running", false}}) {
    const auto selector = Selector::parse(labels, fields);
    ASSERT_TRUE(selector.ok()) << selector.error().message;
    EXPECT_EQ(selector->matches(object), want) << labels << " " << fields;
  }
}

}  // namespace
}  // namespace lockstep::local
