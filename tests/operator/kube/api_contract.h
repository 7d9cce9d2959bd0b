// The contract of every kube::Api: one suite for HttpApi against a real server and for local::MemoryApi. Include it in
// one file of a test program and instantiate it:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, ApiContract, testing::Values(ContractParameter{"memory", [] { ... }}));
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "operator/api/object.h"
#include "operator/kube/api.h"

namespace lockstep::kube::contract {

// An Api to test, with a namespace of its own that is empty when the test begins.
struct Subject {
  virtual ~Subject() = default;
  virtual Api& api() = 0;
  virtual std::string name_space() const = 0;
  // Features beyond the minimum; tests of missing ones are skipped with a reason.
  std::string forgotten_version;     // a resourceVersion that it no longer has; "" if it keeps all
  int bookmark_timeout_seconds = 0;  // a watch of this many seconds gets a bookmark; 0: the test cannot wait for one
};

struct Parameter {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;  // null: skipped, because of `why_not`
  std::string why_not;
};

inline void PrintTo(const Parameter& parameter, std::ostream* out) {
  *out << parameter.name;
}

class ApiContract : public testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    if (!GetParam().make) GTEST_SKIP() << GetParam().why_not;
    subject_ = GetParam().make();
    ASSERT_NE(subject_, nullptr);
  }

  Api& api() { return subject_->api(); }
  std::string name_space() const { return subject_->name_space(); }

  Json config_map(const std::string& name, const std::string& value = "1", const Json& labels = Json::object()) {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"name", name}, {"namespace", name_space()}, {"labels", labels}}},
            {"data", {{"key", value}}}};
  }
  Json job(const std::string& name) {
    return {{"apiVersion", "lockstep.dev/v1alpha1"},
            {"kind", "TrainingJob"},
            {"metadata", {{"name", name}, {"namespace", name_space()}}},
            {"spec", {{"image", "example/image:1"}, {"command", {"train"}}, {"nodes", 1}}}};
  }
  // Creates the object and returns the server's; a failure ends the test.
  Json created(const Resource& resource, const Json& object) {
    auto result = api().create(resource, name_space(), object);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *result : Json::object();
  }
  static std::string version(const Json& object) { return object["metadata"]["resourceVersion"]; }
  static std::string uid(const Json& object) { return object["metadata"]["uid"]; }

  std::string list_version(const Resource& resource) {
    auto page = api().list(resource, {.name_space = name_space()});
    EXPECT_TRUE(page) << page.error().message;
    return page ? page->resource_version : "";
  }

  struct Seen {
    WatchEventType type;
    Json object;
    std::string name() const { return object["metadata"]["name"]; }
  };
  // Watches from `from` until `count` events that are no bookmarks have come, or 20 s.
  std::vector<Seen> watch(const Resource& resource, const std::string& from, std::size_t count,
                          const std::string& labels = "") {
    std::vector<Seen> seen;
    std::stop_source stop;
    std::jthread timer([&stop](std::stop_token over) {
      for (int i = 0; i < 2000 && !over.stop_requested(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      stop.request_stop();
    });
    WatchOptions options;
    options.name_space = name_space();
    options.label_selector = labels;
    options.resource_version = from;
    const Status ended = api().watch(
        resource, options,
        [&](WatchEvent event) {
          if (event.type != WatchEventType::kBookmark) seen.push_back({event.type, std::move(event.object)});
          return seen.size() < count;
        },
        stop.get_token());
    EXPECT_TRUE(ended) << ended.error().message;
    return seen;
  }
  // True when `condition` holds within `patience`.
  static bool eventually(const std::function<bool()>& condition,
                         std::chrono::seconds patience = std::chrono::seconds(30)) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  }

  std::unique_ptr<Subject> subject_;
};

TEST_P(ApiContract, a_created_object_has_a_uid_a_version_and_a_time_and_can_be_read) {
  const Json made = created(kConfigMaps, config_map("a", "x"));
  EXPECT_FALSE(uid(made).empty());
  EXPECT_FALSE(version(made).empty());
  EXPECT_TRUE(made["metadata"].contains("creationTimestamp"));
  EXPECT_FALSE(made["metadata"].contains("managedFields"));
  const auto read = api().get(kConfigMaps, name_space(), "a");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, made);
  EXPECT_EQ((*read)["data"]["key"], "x");
  EXPECT_EQ((*read)["kind"], "ConfigMap");
}

TEST_P(ApiContract, a_second_create_of_a_name_is_already_exists) {
  created(kConfigMaps, config_map("a"));
  const auto again = api().create(kConfigMaps, name_space(), config_map("a", "2"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ((*api().get(kConfigMaps, name_space(), "a"))["data"]["key"], "1");
}

TEST_P(ApiContract, a_missing_object_is_not_found_for_every_verb) {
  EXPECT_EQ(api().get(kConfigMaps, name_space(), "none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(api().remove(kConfigMaps, name_space(), "none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(api().patch(kConfigMaps, name_space(), "none", PatchType::kMerge, {{"data", {{"a", "b"}}}}).error().code,
            ErrorCode::kNotFound);
  Json stale = config_map("none");
  stale["metadata"]["resourceVersion"] = "1";
  const auto replaced = api().replace(kConfigMaps, name_space(), "none", stale);
  ASSERT_FALSE(replaced);
  EXPECT_TRUE(replaced.error().code == ErrorCode::kNotFound || replaced.error().code == ErrorCode::kConflict)
      << replaced.error().message;
}

TEST_P(ApiContract, a_create_that_is_a_dry_run_leaves_nothing) {
  const auto made = api().create(kConfigMaps, name_space(), config_map("a"), {.dry_run = true});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(api().get(kConfigMaps, name_space(), "a").error().code, ErrorCode::kNotFound);
}

TEST_P(ApiContract, lists_pick_by_label) {
  created(kConfigMaps, config_map("a", "1", {{"color", "red"}, {"size", "big"}}));
  created(kConfigMaps, config_map("b", "1", {{"color", "blue"}}));
  created(kConfigMaps, config_map("c", "1", {{"color", "red"}}));
  const auto names = [&](const std::string& selector) {
    std::set<std::string> found;
    const auto page = api().list(kConfigMaps, {.name_space = name_space(), .label_selector = selector});
    EXPECT_TRUE(page) << page.error().message;
    if (page) {
      for (const Json& item : page->items) {
        const std::string name = item["metadata"]["name"];
        if (name.size() == 1) found.insert(name);  // not the root certificates that every namespace gets
      }
    }
    return found;
  };
  EXPECT_EQ(names(""), (std::set<std::string>{"a", "b", "c"}));
  EXPECT_EQ(names("color=red"), (std::set<std::string>{"a", "c"}));
  EXPECT_EQ(names("color=red,size=big"), (std::set<std::string>{"a"}));
  EXPECT_EQ(names("size"), (std::set<std::string>{"a"}));
  EXPECT_EQ(names("color=green"), (std::set<std::string>{}));
}

TEST_P(ApiContract, items_of_a_list_name_their_kind) {
  created(kConfigMaps, config_map("a", "1", {{"color", "red"}}));
  const auto page = api().list(kConfigMaps, {.name_space = name_space(), .label_selector = "color=red"});
  ASSERT_TRUE(page);
  ASSERT_EQ(page->items.size(), 1U);
  EXPECT_EQ(page->items[0]["kind"], "ConfigMap");
  EXPECT_EQ(page->items[0]["apiVersion"], "v1");
}

TEST_P(ApiContract, pages_hold_every_object_once) {
  std::set<std::string> wanted;
  for (int i = 0; i < 7; ++i) {
    created(kConfigMaps, config_map(fmt::format("p{}", i), "1", {{"paged", "yes"}}));
    wanted.insert(fmt::format("p{}", i));
  }
  std::multiset<std::string> found;
  ListOptions options{.name_space = name_space(), .label_selector = "paged=yes", .limit = 2};
  std::string list_version;
  for (int pages = 0; pages < 10; ++pages) {
    const auto page = api().list(kConfigMaps, options);
    ASSERT_TRUE(page) << page.error().message;
    if (pages == 0) list_version = page->resource_version;
    EXPECT_EQ(page->resource_version, list_version);
    for (const Json& item : page->items) found.insert(item["metadata"]["name"].get<std::string>());
    options.continue_token = page->continue_token;
    if (options.continue_token.empty()) break;
  }
  EXPECT_EQ(found, std::multiset<std::string>(wanted.begin(), wanted.end()));
}

TEST_P(ApiContract, texts_of_lists_and_watches_are_those_of_the_objects) {
  created(kConfigMaps, config_map("a", "\"}{]", {{"w", "1"}}));
  created(kConfigMaps, config_map("b", "2", {{"w", "1"}}));
  const ListOptions options{.name_space = name_space(), .label_selector = "w=1"};
  const auto page = api().list(kConfigMaps, options);
  ASSERT_TRUE(page) << page.error().message;
  std::vector<Json> items;
  const auto end = api().list_text(kConfigMaps, options, [&](std::string_view item) {
    items.push_back(Json::parse(item, nullptr, false));
    items.back()["metadata"].erase("managedFields");
    items.back()["kind"] = "ConfigMap";
    items.back()["apiVersion"] = "v1";
  });
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(items, page->items);
  ASSERT_TRUE(api().remove(kConfigMaps, name_space(), "a"));
  const WatchOptions watch_options{.name_space = name_space(),
                                   .label_selector = "w=1",
                                   .resource_version = end->resource_version,
                                   .timeout_seconds = 10};
  std::string deleted;
  const Status ended = api().watch_text(kConfigMaps, watch_options,
                                        [&](WatchEventType type, std::string_view object) {
                                          if (type != WatchEventType::kDeleted) return true;
                                          deleted = Json::parse(object, nullptr, false)["metadata"].value("name", "");
                                          return false;
                                        },
                                        {});
  EXPECT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(deleted, "a");
}

TEST_P(ApiContract, a_watch_from_a_lists_version_shows_exactly_the_later_events) {
  created(kConfigMaps, config_map("before", "1", {{"w", "1"}}));
  const std::string from = list_version(kConfigMaps);
  const Json made = created(kConfigMaps, config_map("a", "1", {{"w", "1"}}));
  Json changed = made;
  changed["data"]["key"] = "2";
  const auto replaced = api().replace(kConfigMaps, name_space(), "a", changed);
  ASSERT_TRUE(replaced) << replaced.error().message;
  ASSERT_TRUE(api().remove(kConfigMaps, name_space(), "a"));

  const auto seen = watch(kConfigMaps, from, 3, "w=1");
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].type, WatchEventType::kAdded);
  EXPECT_EQ(seen[0].object, made);
  EXPECT_EQ(seen[1].type, WatchEventType::kModified);
  EXPECT_EQ(seen[1].object, *replaced);
  EXPECT_EQ(seen[2].type, WatchEventType::kDeleted);
  EXPECT_EQ(seen[2].name(), "a");
  // The event of the deletion carries a version of its own, from which a watch can continue.
  const auto order = api::compare_resource_versions(version(seen[2].object), version(*replaced));
  ASSERT_TRUE(order);
  EXPECT_TRUE(*order > 0);
}

TEST_P(ApiContract, a_watch_by_label_says_deleted_when_the_label_goes) {
  const Json made = created(kConfigMaps, config_map("a", "1", {{"w", "1"}}));
  const std::string from = list_version(kConfigMaps);
  const auto patched =
      api().patch(kConfigMaps, name_space(), "a", PatchType::kMerge, {{"metadata", {{"labels", {{"w", nullptr}}}}}});
  ASSERT_TRUE(patched) << patched.error().message;
  const auto seen = watch(kConfigMaps, from, 1, "w=1");
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].type, WatchEventType::kDeleted);
  EXPECT_EQ(uid(seen[0].object), uid(made));
}

TEST_P(ApiContract, a_watch_shows_events_while_it_waits) {
  const std::string from = list_version(kConfigMaps);
  std::jthread writer([&] {
    for (int i = 0; i < 5; ++i) created(kConfigMaps, config_map(fmt::format("live{}", i), "1", {{"w", "1"}}));
  });
  const auto seen = watch(kConfigMaps, from, 5, "w=1");
  ASSERT_EQ(seen.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(seen[i].name(), fmt::format("live{}", i));
}

TEST_P(ApiContract, a_watch_ends_at_once_on_stop) {
  const std::string from = list_version(kConfigMaps);
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop.request_stop();
  });
  const auto start = std::chrono::steady_clock::now();
  WatchOptions options;
  options.name_space = name_space();
  options.resource_version = from;
  options.label_selector = "nobody=has-this";
  const Status ended = api().watch(
      kConfigMaps, options, [](WatchEvent) { return true; }, stop.get_token());
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST_P(ApiContract, a_watch_ends_by_itself_after_its_timeout) {
  WatchOptions options;
  options.name_space = name_space();
  options.resource_version = list_version(kConfigMaps);
  options.timeout_seconds = 1;
  const auto start = std::chrono::steady_clock::now();
  const Status ended = api().watch(kConfigMaps, options, [](WatchEvent) { return true; }, {});
  EXPECT_TRUE(ended) << ended.error().message;
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GT(took, std::chrono::milliseconds(800));
  EXPECT_LT(took, std::chrono::seconds(5));
}

TEST_P(ApiContract, a_quiet_watch_gets_a_bookmark_with_a_newer_version) {
  if (subject_->bookmark_timeout_seconds == 0) GTEST_SKIP() << "bookmarks come too seldom here to wait for one";
  WatchOptions options;
  options.name_space = name_space();
  options.label_selector = "nobody=has-this";
  options.resource_version = list_version(kConfigMaps);
  options.timeout_seconds = subject_->bookmark_timeout_seconds;
  created(kConfigMaps, config_map("other"));  // raises the server's version, unseen by this watch
  std::string bookmark;
  const Status ended = api().watch(kConfigMaps, options,
                                   [&](WatchEvent event) {
                                     if (event.type == WatchEventType::kBookmark) bookmark = version(event.object);
                                     return bookmark.empty();
                                   },
                                   {});
  EXPECT_TRUE(ended) << ended.error().message;
  ASSERT_FALSE(bookmark.empty());
  const auto order = api::compare_resource_versions(bookmark, options.resource_version);
  ASSERT_TRUE(order);
  EXPECT_TRUE(*order > 0);
}

TEST_P(ApiContract, a_watch_from_a_forgotten_version_is_gone) {
  if (subject_->forgotten_version.empty()) GTEST_SKIP() << "no version is forgotten here";
  WatchOptions options;
  options.name_space = name_space();
  options.resource_version = subject_->forgotten_version;
  const Status ended = api().watch(kConfigMaps, options, [](WatchEvent) { return true; }, {});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kGone) << ended.error().message;
}

TEST_P(ApiContract, a_replace_with_an_old_version_is_a_conflict) {
  const Json first = created(kConfigMaps, config_map("a"));
  Json second = first;
  second["data"]["key"] = "2";
  const auto replaced = api().replace(kConfigMaps, name_space(), "a", second);
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_NE(version(*replaced), version(first));
  Json stale = first;
  stale["data"]["key"] = "3";
  const auto refused = api().replace(kConfigMaps, name_space(), "a", stale);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ((*api().get(kConfigMaps, name_space(), "a"))["data"]["key"], "2");
}

TEST_P(ApiContract, a_replace_that_changes_nothing_keeps_the_version) {
  const Json first = created(kConfigMaps, config_map("a"));
  const auto replaced = api().replace(kConfigMaps, name_space(), "a", first);
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_EQ(version(*replaced), version(first));
}

TEST_P(ApiContract, of_racing_replaces_with_one_version_exactly_one_wins) {
  const Json first = created(kConfigMaps, config_map("a"));
  std::atomic<int> won = 0, conflicts = 0;
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 8; ++i) {
      writers.emplace_back([&, i] {
        Json mine = first;
        mine["data"]["key"] = fmt::format("writer {}", i);
        const auto result = api().replace(kConfigMaps, name_space(), "a", mine);
        if (result) ++won;
        if (!result && result.error().code == ErrorCode::kConflict) ++conflicts;
      });
    }
  }
  EXPECT_EQ(won, 1);
  EXPECT_EQ(conflicts, 7);
}

TEST_P(ApiContract, a_delete_with_another_uid_is_a_conflict_and_leaves_the_object) {
  const Json made = created(kConfigMaps, config_map("a"));
  const auto refused = api().remove(kConfigMaps, name_space(), "a", {.uid = "00000000-0000-0000-0000-000000000000"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict) << refused.error().message;
  ASSERT_TRUE(api().get(kConfigMaps, name_space(), "a"));
  const auto stale = api().remove(kConfigMaps, name_space(), "a", {.resource_version = "1"});
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, ErrorCode::kConflict) << stale.error().message;
  const auto removed = api().remove(kConfigMaps, name_space(), "a", {.uid = uid(made)});
  EXPECT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(api().get(kConfigMaps, name_space(), "a").error().code, ErrorCode::kNotFound);
}

TEST_P(ApiContract, a_recreated_object_has_another_uid) {
  const Json first = created(kConfigMaps, config_map("a"));
  ASSERT_TRUE(api().remove(kConfigMaps, name_space(), "a"));
  const Json second = created(kConfigMaps, config_map("a"));
  EXPECT_NE(uid(first), uid(second));
}

TEST_P(ApiContract, status_is_written_only_through_its_subresource) {
  Json with_status = job("a");
  with_status["status"]["state"] = "Hacked";
  const Json made = created(kTrainingJobs, with_status);
  EXPECT_FALSE(made.contains("status") && made["status"].contains("state"));
  EXPECT_EQ(made["metadata"]["generation"], 1);

  Json change = made;
  change["spec"]["nodes"] = 2;  // ignored by the status subresource
  change["status"]["state"] = "Running";
  const auto status = api().replace(kTrainingJobs, name_space(), "a", change, "status");
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ((*status)["status"]["state"], "Running");
  EXPECT_EQ((*status)["spec"]["nodes"], 1);
  EXPECT_EQ((*status)["metadata"]["generation"], 1);

  Json spec = *status;
  spec["spec"]["suspend"] = true;
  spec["status"]["state"] = "Hacked";  // ignored by the object itself
  const auto replaced = api().replace(kTrainingJobs, name_space(), "a", spec);
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_EQ((*replaced)["spec"]["suspend"], true);
  EXPECT_EQ((*replaced)["status"]["state"], "Running");
  EXPECT_EQ((*replaced)["metadata"]["generation"], 2);
}

TEST_P(ApiContract, a_status_with_an_old_version_is_a_conflict) {
  const Json made = created(kTrainingJobs, job("a"));
  Json first = made, second = made;
  first["status"]["state"] = "Running";
  second["status"]["state"] = "Failed";
  ASSERT_TRUE(api().replace(kTrainingJobs, name_space(), "a", first, "status"));
  const auto refused = api().replace(kTrainingJobs, name_space(), "a", second, "status");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
}

TEST_P(ApiContract, a_merge_patch_sets_and_removes) {
  Json two = config_map("a");
  two["data"]["other"] = "stays";
  created(kConfigMaps, two);
  const auto patched =
      api().patch(kConfigMaps, name_space(), "a", PatchType::kMerge, {{"data", {{"key", nullptr}, {"new", "n"}}}});
  ASSERT_TRUE(patched) << patched.error().message;
  EXPECT_EQ((*patched)["data"], (Json{{"other", "stays"}, {"new", "n"}}));
}

TEST_P(ApiContract, a_json_patch_applies_only_when_its_test_holds) {
  created(kConfigMaps, config_map("a"));
  const auto patch = [&](const std::string& expected) {
    return api().patch(kConfigMaps, name_space(), "a", PatchType::kJson,
                       Json::array({{{"op", "test"}, {"path", "/data/key"}, {"value", expected}},
                                    {{"op", "replace"}, {"path", "/data/key"}, {"value", "2"}}}));
  };
  const auto refused = patch("not this");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid) << refused.error().message;
  const auto applied = patch("1");
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ((*applied)["data"]["key"], "2");
}

TEST_P(ApiContract, a_patch_with_an_old_version_is_a_conflict) {
  const Json first = created(kConfigMaps, config_map("a"));
  ASSERT_TRUE(api().patch(kConfigMaps, name_space(), "a", PatchType::kMerge, {{"data", {{"key", "2"}}}}));
  const auto refused = api().patch(kConfigMaps, name_space(), "a", PatchType::kMerge,
                                   {{"metadata", {{"resourceVersion", version(first)}}}, {"data", {{"key", "3"}}}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict) << refused.error().message;
}

TEST_P(ApiContract, dependents_are_deleted_with_their_owner) {
  const Json owner = created(kTrainingJobs, job("owner"));
  Json child = config_map("child");
  child["metadata"]["ownerReferences"] = Json::array({{{"apiVersion", "lockstep.dev/v1alpha1"},
                                                       {"kind", "TrainingJob"},
                                                       {"name", "owner"},
                                                       {"uid", uid(owner)},
                                                       {"controller", true},
                                                       {"blockOwnerDeletion", true}}});
  created(kConfigMaps, child);
  created(kConfigMaps, config_map("stranger"));
  ASSERT_TRUE(api().remove(kTrainingJobs, name_space(), "owner"));
  EXPECT_TRUE(eventually([&] {
    const auto read = api().get(kConfigMaps, name_space(), "child");
    return !read && read.error().code == ErrorCode::kNotFound;
  }));
  EXPECT_TRUE(api().get(kConfigMaps, name_space(), "stranger"));
}

TEST_P(ApiContract, a_finalizer_holds_a_deleted_object_until_it_is_taken_off) {
  Json held = config_map("a");
  held["metadata"]["finalizers"] = {"lockstep.dev/test"};
  created(kConfigMaps, held);
  ASSERT_TRUE(api().remove(kConfigMaps, name_space(), "a"));
  const auto read = api().get(kConfigMaps, name_space(), "a");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE((*read)["metadata"].contains("deletionTimestamp"));
  ASSERT_TRUE(
      api().patch(kConfigMaps, name_space(), "a", PatchType::kMerge, {{"metadata", {{"finalizers", nullptr}}}}));
  EXPECT_EQ(api().get(kConfigMaps, name_space(), "a").error().code, ErrorCode::kNotFound);
}

TEST_P(ApiContract, leases_and_events_are_objects_like_others) {
  const Json lease{{"apiVersion", "coordination.k8s.io/v1"},
                   {"kind", "Lease"},
                   {"metadata", {{"name", "l"}}},
                   {"spec",
                    {{"holderIdentity", "me"},
                     {"leaseDurationSeconds", 15},
                     {"leaseTransitions", 1},
                     {"renewTime", "2026-11-20T12:34:56.123456Z"}}}};
  const Json made = created(kLeases, lease);
  EXPECT_EQ(made["spec"]["renewTime"], "2026-11-20T12:34:56.123456Z");
  Json taken = made;
  taken["spec"]["holderIdentity"] = "other";
  EXPECT_TRUE(api().replace(kLeases, name_space(), "l", taken));
  EXPECT_EQ(api().replace(kLeases, name_space(), "l", made).error().code, ErrorCode::kConflict);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ApiContract);

}  // namespace lockstep::kube::contract
