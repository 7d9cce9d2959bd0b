// The reflector step by step: each row of the checklist of list and watch, against answers that the test decides.
#include "operator/cache/reflector.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <thread>

#include "tests/operator/kube/fake_api.h"

namespace lockstep::cache {
namespace {

using kube::Json;
using kube::ListOptions;
using kube::ListPage;
using kube::WatchEvent;
using kube::WatchEventType;
using kube::WatchOptions;
using std::chrono::milliseconds;
using std::chrono::seconds;

Json object(const std::string& name, int version) {
  return {{"metadata", {{"name", name}, {"namespace", "x"}, {"resourceVersion", std::to_string(version)}}}};
}

// Records the calls of the reflector.
class Diary final : public ReflectorSink {
 public:
  std::vector<std::string> lines;
  std::string pages;
  Json newest;  // item of a list
  void begin_list() override { pages.clear(); }
  void add_item(Json item) override {
    pages += item["metadata"]["name"].get<std::string>();
    newest = std::move(item);
  }
  void end_list(const std::string& version) override { lines.push_back("list " + pages + " " + version); }
  void put(Json item, const std::string& version) override { note("put", item, version); }
  void remove(Json item, const std::string& version) override { note("remove", item, version); }
  void bookmark(const std::string& version) override { lines.push_back("bookmark " + version); }

 private:
  void note(const char* what, const Json& item, const std::string& version) {
    lines.push_back(fmt::format("{} {} {}", what, item["metadata"]["name"].get<std::string>(), version));
  }
};

// The same of texts.
class TextDiary final : public TextSink {
 public:
  std::vector<std::string> lines;
  std::string pages;
  void begin_list() override { pages.clear(); }
  void add_item(std::string_view item) override { pages += name_in(item); }
  void end_list(const std::string& version) override { lines.push_back("list " + pages + " " + version); }
  void put(std::string_view item, const std::string& version) override { note("put", item, version); }
  void remove(std::string_view item, const std::string& version) override { note("remove", item, version); }
  void bookmark(const std::string& version) override { lines.push_back("bookmark " + version); }

 private:
  static std::string name_in(std::string_view text) { return Json::parse(text)["metadata"]["name"].get<std::string>(); }
  void note(const char* what, std::string_view item, const std::string& version) {
    lines.push_back(fmt::format("{} {} {}", what, name_in(item), version));
  }
};

class ReflectorTest : public ::testing::Test {
 protected:
  using Watch = std::function<Status(const std::function<bool(WatchEvent)>&)>;

  void SetUp() override {
    api.on_list = [this](const ListOptions& options) -> Result<ListPage> {
      asked.push_back(fmt::format("list rv={} continue={}", options.resource_version, options.continue_token));
      if (lists.empty()) return fail(ErrorCode::kInternal, "no more lists");
      auto answer = lists.front();
      lists.pop_front();
      return answer;
    };
    api.on_watch = [this](const WatchOptions& options, const std::function<bool(WatchEvent)>& on_event,
                          std::stop_token) -> Status {
      asked.push_back("watch rv=" + options.resource_version);
      timeouts.push_back(options.timeout_seconds);
      if (watches.empty()) return fail(ErrorCode::kInternal, "no more watches");
      auto play = watches.front();
      watches.pop_front();
      return play(on_event);
    };
  }
  Duration step() { return reflector.step({}); }
  void synced() {
    lists.push_back(ListPage{{object("a", 5)}, "100", ""});
    ASSERT_EQ(step(), Duration::zero());
    ASSERT_EQ(reflector.state(), Reflector::State::kWatching);
    asked.clear();
    diary.lines.clear();
  }

  kube::testing::FakeApi api;
  ManualClock clock;
  MetricsRegistry metrics;
  Diary diary;
  std::deque<Result<ListPage>> lists;
  std::deque<Watch> watches;
  std::vector<std::string> asked;
  std::vector<int> timeouts;
  Reflector reflector{api, clock, metrics, kube::kPods, {}, diary, 1};
};

TEST_F(ReflectorTest, watches_from_the_version_of_the_list_not_of_its_items) {
  lists.push_back(ListPage{{object("a", 5), object("b", 190), object("c", 7)}, "100", ""});
  watches.push_back([](const auto& on_event) {
    on_event({WatchEventType::kModified, object("a", 101)});
    return Status();
  });
  step();
  step();
  EXPECT_EQ(asked, (std::vector<std::string>{"list rv= continue=", "watch rv=100"}));
  EXPECT_EQ(diary.lines, (std::vector<std::string>{"list abc 100", "put a 101"}));
}

TEST_F(ReflectorTest, events_and_bookmarks_advance_the_version_over_a_clean_end) {
  synced();
  watches.push_back([](const auto& on_event) {
    on_event({WatchEventType::kAdded, object("b", 101)});
    on_event({WatchEventType::kDeleted, object("a", 102)});
    return Status();
  });
  watches.push_back([](const auto& on_event) {
    on_event({WatchEventType::kBookmark, Json{{"kind", "Pod"}, {"metadata", {{"resourceVersion", "500"}}}}});
    return Status();
  });
  watches.push_back([](const auto&) { return Status(); });
  EXPECT_EQ(step(), Duration::zero());  // an end with events is no failure
  EXPECT_EQ(step(), Duration::zero());
  step();
  EXPECT_EQ(asked, (std::vector<std::string>{"watch rv=100", "watch rv=102", "watch rv=500"}));
  EXPECT_EQ(diary.lines, (std::vector<std::string>{"put b 101", "remove a 102", "bookmark 500"}));
}

TEST_F(ReflectorTest, a_sink_that_reads_few_fields_gets_no_others) {
  const JsonPaths fields{{"metadata"}, {"status|phase"}};
  Reflector of_fields{api, clock, metrics, kube::kPods, {.fields = &fields}, diary, 1};
  Json item = object("a", 5);
  item["spec"] = {{"nodeName", "n"}};
  item["status"] = {{"phase", "Running"}, {"podIP", "10.0.0.1"}};
  lists.push_back(ListPage{{item}, "100", ""});
  EXPECT_EQ(of_fields.step({}), Duration::zero());
  EXPECT_FALSE(diary.newest.contains("spec"));
  EXPECT_EQ(diary.newest["status"], (Json{{"phase", "Running"}}));
  EXPECT_EQ(diary.newest["kind"], "Pod");
  const JsonPaths* asked_for = nullptr;
  api.on_watch = [&](const WatchOptions& options, const std::function<bool(WatchEvent)>&, std::stop_token) -> Status {
    asked_for = options.fields;
    return {};
  };
  of_fields.step({});
  EXPECT_EQ(asked_for, &fields);
}

TEST_F(ReflectorTest, a_sink_of_texts_gets_the_same_events_as_one_of_json) {
  TextDiary texts;
  Reflector of_texts{api, clock, metrics, kube::kPods, {}, texts, 1};
  for (Reflector* one : {&reflector, &of_texts}) {
    lists.push_back(ListPage{{object("a", 5), object("b", 6)}, "100", "more"});
    lists.push_back(ListPage{{object("c", 7)}, "100", ""});
    watches.push_back([](const auto& on_event) {
      on_event({WatchEventType::kAdded, object("d", 101)});
      on_event({WatchEventType::kModified, Json{{"metadata", {{"name", "no version"}}}}});
      on_event({WatchEventType::kDeleted, object("a", 102)});
      on_event({WatchEventType::kBookmark, Json{{"metadata", {{"resourceVersion", "500"}}}}});
      return Status();
    });
    watches.push_back([this](const auto&) -> Status {
      clock.advance(seconds(5));
      return fail(ErrorCode::kGone, "too old");
    });
    lists.push_back(fail(ErrorCode::kUnavailable, "no answer"));
    lists.push_back(ListPage{{}, "600", ""});
    for (int i = 0; i < 6; ++i) one->step({});
  }
  EXPECT_EQ(diary.lines,
            (std::vector<std::string>{"list abc 100", "put d 101", "remove a 102", "bookmark 500", "list  600"}));
  EXPECT_EQ(texts.lines, diary.lines);
  EXPECT_EQ(std::vector(asked.begin(), asked.begin() + 6), std::vector(asked.begin() + 6, asked.end()));
}

TEST_F(ReflectorTest, a_first_page_with_a_non_object_is_listed_again) {
  lists.push_back(ListPage{{object("a", 5), Json(5), object("b", 6)}, "100", ""});
  lists.push_back(ListPage{{object("a", 5), object("b", 6)}, "101", ""});
  EXPECT_GT(reflector.step({}), Duration::zero());
  EXPECT_EQ(reflector.state(), Reflector::State::kEmpty);
  reflector.step({});
  EXPECT_EQ(diary.lines, std::vector<std::string>{"list ab 101"});
}

TEST_F(ReflectorTest, no_item_of_a_later_page_with_a_non_object_arrives_twice) {
  lists.push_back(ListPage{{object("a", 5)}, "100", "t1"});
  lists.push_back(ListPage{{object("b", 6), Json(5)}, "100", "t1"});
  lists.push_back(ListPage{{object("a", 5)}, "101", "t2"});
  lists.push_back(ListPage{{object("b", 6)}, "101", ""});
  EXPECT_EQ(step(), Duration::zero());
  EXPECT_GT(step(), Duration::zero());
  EXPECT_EQ(reflector.state(), Reflector::State::kEmpty);
  step();
  step();
  EXPECT_EQ(diary.lines, std::vector<std::string>{"list ab 101"});
  EXPECT_EQ(asked, (std::vector<std::string>{"list rv= continue=", "list rv= continue=t1",
                                             "list rv= continue=", "list rv= continue=t2"}));
}

TEST_F(ReflectorTest, a_later_page_without_an_answer_is_requested_again) {
  lists.push_back(ListPage{{object("a", 5)}, "100", "t1"});
  lists.push_back(fail(ErrorCode::kUnavailable, "no answer"));
  lists.push_back(ListPage{{object("b", 6)}, "100", ""});
  EXPECT_EQ(step(), Duration::zero());
  EXPECT_GT(step(), Duration::zero());
  EXPECT_EQ(reflector.state(), Reflector::State::kListing);
  step();
  EXPECT_EQ(diary.lines, std::vector<std::string>{"list ab 100"});
  EXPECT_EQ(asked.back(), "list rv= continue=t1");
}

TEST_F(ReflectorTest, asked_to_list_again_ends_its_watch_and_lists) {
  synced();
  watches.push_back([this](const auto& on_event) -> Status {
    reflector.list_again();
    EXPECT_FALSE(on_event({WatchEventType::kModified, object("a", 101)})) << "the watch is to end";
    return fail(ErrorCode::kCancelled, "stopped");
  });
  lists.push_back(ListPage{{object("b", 9)}, "160", ""});
  EXPECT_EQ(step(), Duration::zero());
  step();
  EXPECT_EQ(asked, (std::vector<std::string>{"watch rv=100", "list rv=101 continue="}));
  EXPECT_EQ(diary.lines, (std::vector<std::string>{"put a 101", "list b 160"}));
}

TEST_F(ReflectorTest, asked_before_its_first_list_lists_twice) {
  reflector.list_again();
  lists.push_back(ListPage{{object("a", 5)}, "100", ""});
  lists.push_back(ListPage{{object("a", 5)}, "110", ""});
  watches.push_back([](const auto&) -> Status { return fail(ErrorCode::kCancelled, "stopped"); });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(), Duration::zero());
  EXPECT_EQ(diary.lines, (std::vector<std::string>{"list a 100", "list a 110"}));
}

TEST_F(ReflectorTest, gone_leads_to_a_list_that_is_not_older_than_the_last_version) {
  synced();
  watches.push_back([this](const auto& on_event) -> Status {
    on_event({WatchEventType::kModified, object("a", 150)});
    clock.advance(seconds(5));
    return fail(ErrorCode::kGone, "too old");
  });
  lists.push_back(ListPage{{object("z", 9)}, "160", ""});
  watches.push_back([](const auto&) { return Status(); });
  EXPECT_EQ(step(), Duration::zero());
  EXPECT_EQ(reflector.state(), Reflector::State::kEmpty);
  step();
  step();
  EXPECT_EQ(asked, (std::vector<std::string>{"watch rv=100", "list rv=150 continue=", "watch rv=160"}));
  EXPECT_EQ(diary.lines.back(), "list z 160");
}

TEST_F(ReflectorTest, a_server_that_answers_gone_to_every_watch_is_not_listed_in_a_loop) {
  synced();
  Duration waited{0};
  for (int i = 0; i < 5; ++i) {
    watches.push_back([](const auto&) -> Status { return fail(ErrorCode::kGone, "too old"); });
    lists.push_back(ListPage{{}, "100", ""});
    waited += step();
    waited += step();
  }
  EXPECT_GT(waited, seconds(5));
}

TEST_F(ReflectorTest, a_server_that_was_restored_to_the_past_is_listed_as_it_is) {
  synced();
  watches.push_back([](const auto&) -> Status { return fail(ErrorCode::kGone, "too old"); });
  lists.push_back(fail(ErrorCode::kGone, "Too large resource version"));
  lists.push_back(ListPage{{}, "40", ""});
  watches.push_back([](const auto&) { return Status(); });
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(asked,
            (std::vector<std::string>{"watch rv=100", "list rv=100 continue=", "list rv= continue=", "watch rv=40"}));
}

TEST_F(ReflectorTest, pages_take_effect_together_and_restart_when_their_token_expires) {
  lists.push_back(ListPage{{object("a", 1), object("b", 2)}, "100", "t1"});
  lists.push_back(fail(ErrorCode::kGone, "the token has expired"));
  lists.push_back(ListPage{{object("a", 1)}, "110", "t2"});
  lists.push_back(ListPage{{object("c", 3)}, "110", ""});
  step();
  EXPECT_EQ(reflector.state(), Reflector::State::kListing);
  EXPECT_TRUE(diary.lines.empty());
  EXPECT_GT(step(), Duration::zero());
  EXPECT_EQ(step(), Duration::zero());
  step();
  EXPECT_EQ(diary.lines, std::vector<std::string>{"list ac 110"});
  EXPECT_EQ(asked, (std::vector<std::string>{"list rv= continue=", "list rv= continue=t1",
                                             "list rv= continue=", "list rv= continue=t2"}));
}

TEST_F(ReflectorTest, an_end_at_once_without_events_backs_off_and_does_not_list) {
  synced();
  int requests = 0;
  const auto start = clock.now();
  while (clock.now() - start < seconds(60)) {
    watches.push_back([](const auto&) { return Status(); });
    ++requests;
    clock.advance(std::max<Duration>(step(), milliseconds(1)));
  }
  EXPECT_LE(requests, 12);
  for (const std::string& line : asked) EXPECT_EQ(line, "watch rv=100");
}

TEST_F(ReflectorTest, a_silent_server_is_watched_again_from_the_last_version) {
  synced();
  watches.push_back([this](const auto& on_event) -> Status {
    on_event({WatchEventType::kAdded, object("b", 101)});
    clock.advance(seconds(120));
    return fail(ErrorCode::kDeadlineExceeded, "silence");
  });
  watches.push_back([](const auto&) { return Status(); });
  EXPECT_LE(step(), seconds(1));
  step();
  EXPECT_EQ(asked, (std::vector<std::string>{"watch rv=100", "watch rv=101"}));
  EXPECT_NE(metrics.text().find("lockstep_watch_idle_timeouts_total{resource=\"pods\"} 1"), std::string::npos);
}

TEST_F(ReflectorTest, backoff_grows_to_half_a_minute_and_resets_after_two_good_minutes) {
  synced();
  Duration wait{0};
  for (int i = 0; i < 10; ++i) {
    watches.push_back([](const auto&) -> Status { return fail(ErrorCode::kUnavailable, "down"); });
    wait = step();
    clock.advance(wait);
  }
  EXPECT_GE(wait, seconds(15));
  EXPECT_LE(wait, seconds(30));
  watches.push_back([this](const auto& on_event) -> Status {
    on_event({WatchEventType::kAdded, object("b", 101)});
    clock.advance(std::chrono::minutes(3));
    return fail(ErrorCode::kUnavailable, "down");
  });
  EXPECT_LE(step(), seconds(1));
  EXPECT_EQ(asked.back(), "watch rv=100");
}

TEST_F(ReflectorTest, waits_at_least_as_long_as_the_server_asks) {
  lists.push_back(Error{ErrorCode::kTooManyRequests, "slow down", 17.0});
  EXPECT_EQ(step(), seconds(17));
}

TEST_F(ReflectorTest, lost_rights_lead_back_to_a_list) {
  synced();
  watches.push_back([](const auto&) -> Status { return fail(ErrorCode::kForbidden, "no"); });
  lists.push_back(fail(ErrorCode::kForbidden, "no"));
  lists.push_back(ListPage{{}, "120", ""});
  EXPECT_GT(step(), Duration::zero());
  EXPECT_GT(step(), Duration::zero());
  step();
  EXPECT_EQ(diary.lines, std::vector<std::string>{"list  120"});
}

TEST_F(ReflectorTest, objects_without_a_version_are_skipped_and_counted) {
  synced();
  watches.push_back([](const auto& on_event) {
    on_event({WatchEventType::kAdded, Json{{"metadata", {{"name", "odd"}}}}});
    on_event({WatchEventType::kAdded, Json{{"metadata", 7}}});
    on_event({WatchEventType::kAdded, object("b", 101)});
    return Status();
  });
  step();
  EXPECT_EQ(diary.lines, std::vector<std::string>{"put b 101"});
  EXPECT_NE(metrics.text().find("lockstep_watch_undecodable_total{resource=\"pods\"} 2"), std::string::npos);
}

TEST_F(ReflectorTest, watches_of_many_reflectors_end_at_different_times) {
  std::set<int> different;
  for (unsigned seed = 0; seed < 100; ++seed) {
    Reflector one(api, clock, metrics, kube::kPods, {}, diary, (seed + 1) * 0x9E3779B9U);
    lists.push_back(ListPage{{}, "1", ""});
    watches.push_back([](const auto&) { return Status(); });
    static_cast<void>(one.step({}));
    static_cast<void>(one.step({}));
    EXPECT_GE(timeouts.back(), 290);
    EXPECT_LE(timeouts.back(), 580);
    different.insert(timeouts.back());
  }
  EXPECT_GT(different.size(), 50U);
}

TEST(ReflectorThread, stops_at_once_in_the_middle_of_a_watch) {
  kube::testing::FakeApi api;
  api.on_list = [](const ListOptions&) -> Result<ListPage> { return ListPage{{}, "1", ""}; };
  std::promise<void> watching;
  api.on_watch = [&](const WatchOptions&, const std::function<bool(WatchEvent)>&, std::stop_token stop) -> Status {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    watching.set_value();
    changed.wait_for(lock, stop, seconds(20), [] { return false; });
    return fail(ErrorCode::kCancelled, "told to stop");
  };
  MetricsRegistry metrics;
  Diary diary;
  Reflector reflector(api, SystemClock::instance(), metrics, kube::kPods, {}, diary);
  reflector.start();
  ASSERT_EQ(watching.get_future().wait_for(seconds(10)), std::future_status::ready);
  const auto start = std::chrono::steady_clock::now();
  reflector.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
}

}  // namespace
}  // namespace lockstep::cache
