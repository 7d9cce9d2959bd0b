// An event is written once and counted afterwards; recording never blocks.
#include "operator/kube/event_recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/operator/kube/fake_api.h"

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class EventRecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    api.on_create = [this](const Resource& resource, const Json& object) -> Result<Json> {
      const std::lock_guard guard(mutex);
      EXPECT_EQ(resource, kEvents);
      created.push_back(object);
      if (refuse) return fail(ErrorCode::kForbidden, "no");
      return object;
    };
    api.on_patch = [this](const Resource&, const std::string& name, const Json& patch) -> Result<Json> {
      const std::lock_guard guard(mutex);
      patched.emplace_back(name, patch);
      return patch;
    };
  }
  std::size_t count_created() {
    const std::lock_guard guard(mutex);
    return created.size();
  }
  template <typename Condition>
  static bool wait_for(Condition condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(2));
    return condition();
  }

  const EventObject job{"lockstep.dev/v1alpha1", "TrainingJob", "team", "train", "uid-1"};
  std::mutex mutex;
  std::vector<Json> created;
  std::vector<std::pair<std::string, Json>> patched;
  bool refuse = false;
  testing::FakeApi api;
  ManualClock clock;
  MetricsRegistry metrics;
};

TEST_F(EventRecorderTest, an_event_has_everything_that_the_server_wants) {
  {
    EventRecorder recorder(api, clock, metrics, {.instance = std::string(200, 'i')});
    recorder.record(job, "Warning", "RankFailed", "Restart", std::string(1500, 'x'));
    ASSERT_TRUE(wait_for([&] { return count_created() == 1; }));
  }
  const Json& event = created.at(0);
  EXPECT_EQ(event["metadata"]["namespace"], "team");
  EXPECT_EQ(event["eventTime"], "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(event["reportingInstance"].get<std::string>().size(), 128U);
  EXPECT_EQ(event["note"].get<std::string>().size(), 1000U);
  EXPECT_EQ(event["regarding"]["uid"], "uid-1");
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["action"], "Restart");
}

TEST_F(EventRecorderTest, a_thousand_times_the_same_is_one_event_and_few_updates) {
  {
    EventRecorder recorder(api, clock, metrics, {});
    for (int i = 0; i < 1000; ++i) {
      recorder.record(job, "Warning", "RankFailed", "Restart", "rank 3 exited with 1");
      if (i % 100 == 99) {  // let the queue drain, and time pass
        ASSERT_TRUE(wait_for([&] { return count_created() == 1; }));
        std::this_thread::sleep_for(milliseconds(5));
        clock.advance(seconds(10));
      }
    }
  }
  EXPECT_EQ(created.size(), 1U);
  ASSERT_FALSE(patched.empty());
  EXPECT_LE(patched.size(), 6U);
  EXPECT_EQ(patched.back().first, created[0]["metadata"]["name"]);
  EXPECT_EQ(patched.back().second["series"]["count"], 1000);
}

TEST_F(EventRecorderTest, after_a_long_silence_the_same_is_news_again) {
  EventRecorder recorder(api, clock, metrics, {});
  recorder.record(job, "Normal", "Started", "Start", "it runs");
  ASSERT_TRUE(wait_for([&] { return count_created() == 1; }));
  clock.advance(std::chrono::minutes(7));
  recorder.record(job, "Normal", "Started", "Start", "it runs");
  EXPECT_TRUE(wait_for([&] { return count_created() == 2; }));
}

TEST_F(EventRecorderTest, a_flood_about_one_object_is_cut_and_other_events_go_out) {
  {
    EventRecorder recorder(api, clock, metrics, {});
    for (int i = 0; i < 200; ++i) recorder.record(job, "Warning", "RankFailed", "Restart", std::to_string(i));
    auto other = job;
    other.uid = "uid-2";
    recorder.record(other, "Normal", "Started", "Start", "it runs");
    ASSERT_TRUE(wait_for([&] { return count_created() == 26; }));
  }
  EXPECT_EQ(created.size(), 26U);
  EXPECT_NE(metrics.text().find("lockstep_events_dropped_total{reason=\"too_many\"} 175"), std::string::npos);
}

TEST_F(EventRecorderTest, recording_never_waits_and_the_queue_is_bounded) {
  std::atomic<bool> go = false;
  api.on_create = [&](const Resource&, const Json& object) -> Result<Json> {
    while (!go) std::this_thread::sleep_for(milliseconds(1));
    return object;
  };
  EventRecorder recorder(api, clock, metrics, {.most_queued = 10});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) recorder.record(job, "Normal", "Started", "Start", std::to_string(i));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  EXPECT_NE(metrics.text().find("reason=\"queue_full\""), std::string::npos);
  go = true;
}

TEST_F(EventRecorderTest, a_refused_event_is_dropped_and_counted) {
  refuse = true;
  {
    EventRecorder recorder(api, clock, metrics, {});
    recorder.record(job, "Normal", "Started", "Start", "it runs");
    ASSERT_TRUE(wait_for([&] { return count_created() == 1; }));
  }
  EXPECT_NE(metrics.text().find("lockstep_events_dropped_total{reason=\"refused\"} 1"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::kube
