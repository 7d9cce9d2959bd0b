// Bulk creates and deletes against a server that goes away, refuses or is slow: what stops, what goes on, and what
// liveness says meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/operator/job/running_controller.h"
#include "tests/sanitizer.h"

namespace lockstep::job::bulk_writes_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::holds_within;
using testing::RunningController;
using testing::WatchedApi;

// Takes each call for `deadline` and answers none, while `away`.
class Blackhole {
 public:
  explicit Blackhole(milliseconds deadline) : deadline_(deadline) {}
  std::optional<Error> operator()() {
    if (!away) return std::nullopt;
    ++calls;
    std::unique_lock lock(mutex_);
    back_.wait_for(lock, deadline_, [this] { return !away; });
    return fail(ErrorCode::kDeadlineExceeded, "the server did not answer");
  }
  void end() {
    const std::lock_guard guard(mutex_);
    away = false;
    back_.notify_all();
  }
  std::atomic<bool> away = false;
  std::atomic<int> calls = 0;  // that got no answer

 private:
  const milliseconds deadline_;
  std::mutex mutex_;
  std::condition_variable back_;
};

// No create or delete of a pod is under way.
bool rests(RunningController& running) {
  return running.metrics.text().find("lockstep_bulk_writes_under_way 0\n") != std::string::npos;
}

TEST(BulkWrites, a_plan_stops_at_the_first_call_without_an_answer) {
  constexpr int kPods = 600;
  Blackhole hole(milliseconds(200));
  JobControllerOptions options;
  options.stuck_after = seconds(2);
  options.most_bulk_writes = 16;  // those in flight count below
  RunningController running(
      [&](const WatchedApi::Write& write) -> std::optional<Error> {
        if (write.resource == kube::kPods && std::string(write.verb) == "create") {
          auto answer = hole();
          if (!answer && hole.calls == 0) hole.away = true;  // after the first create
          return answer;
        }
        return hole();
      },
      options);
  running.create_job("a", kPods);
  ASSERT_TRUE(holds_within(seconds(10), [&] { return hole.calls > 0; }));
  // A call's deadline is 0.2 s; ten of them pass.
  for (const auto end = std::chrono::steady_clock::now() + seconds(5); std::chrono::steady_clock::now() < end;) {
    ASSERT_TRUE(running.controller->healthy()) << "the API server is away, and that is no fault of this process";
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_LT(hole.calls, 100) << "those in flight, and a retry now and then";
  hole.end();
  EXPECT_TRUE(holds_within(seconds(60), [&] { return running.pods("a") == kPods; })) << running.pods("a");
  int twice = 0;
  for (const auto& [name, times] : running.watched.created()) twice += times > 1 ? 1 : 0;
  EXPECT_EQ(twice, 0);
}

// Between its plan and its write a pod may wait in line for longer than a rotation of the authority takes.
TEST(BulkWrites, pods_planned_before_a_change_of_access_are_created_with_it) {
  constexpr int kPods = 20;
  const std::string changed = "10.0.0.9:7077";
  std::atomic<JobController*> controller{nullptr};
  std::atomic<int> creates{0};
  RunningController running([&](const WatchedApi::Write& write) -> std::optional<Error> {
    const bool pod = write.resource == kube::kPods && std::string(write.verb) == "create";
    if (pod && ++creates == 1) {
      EXPECT_TRUE(controller.load()->change_access(changed, "", {}));
    }
    return std::nullopt;
  });
  controller = running.controller.get();
  running.create_job("a", kPods);
  ASSERT_TRUE(holds_within(seconds(10), [&] { return running.pods("a") == kPods; }));
  const auto page = running.api.list(kube::kPods, {.name_space = "default", .limit = 0});
  ASSERT_TRUE(page);
  const auto know = std::count_if(page->items.begin(), page->items.end(),
                                  [&](const kube::Json& pod) { return pod.dump().find(changed) != std::string::npos; });
  EXPECT_EQ(know, kPods - 1) << "all but the one that was on its way";
}

TEST(BulkWrites, pods_that_come_by_the_hundred_cause_few_reconciles) {
  RunningController running([](const WatchedApi::Write&) { return std::nullopt; });
  running.create_job("a", 1000);
  ASSERT_TRUE(holds_within(seconds(60), [&] { return running.pods("a") == 1000; }));
  ASSERT_TRUE(holds_within(seconds(10), [&] { return rests(running); }));
  // By the kubelets: each pod starts.
  const auto page = running.api.list(kube::kPods, {.name_space = "default", .limit = 0});
  ASSERT_TRUE(page);
  for (const kube::Json& pod : page->items) {
    kube::Json started = pod;
    started["status"]["phase"] = "Running";
    ASSERT_TRUE(running.api.replace(kube::kPods, "default", pod["metadata"]["name"], started, "status", {}));
  }
  const auto text = running.metrics.text();
  const auto at = text.find("lockstep_operator_reconcile_total{result=\"success\"} ");
  ASSERT_NE(at, std::string::npos);
  const int reconciles = std::stoi(text.substr(text.find("} ", at) + 2));
  EXPECT_LT(reconciles, 200) << "2,000 events";
}

TEST(BulkWrites, a_job_that_is_deleted_meanwhile_gets_no_further_pods) {
  std::atomic<int> creates = 0;
  RunningController running(
      [&](const WatchedApi::Write& write) -> std::optional<Error> {
        if (write.resource == kube::kPods && std::string(write.verb) == "create") {
          ++creates;
          std::this_thread::sleep_for(milliseconds(5));
        }
        return std::nullopt;
      },
      {.most_bulk_writes = 2});
  running.create_job("a", 2000);
  ASSERT_TRUE(holds_within(seconds(20), [&] { return creates > 20; }));
  ASSERT_TRUE(running.api.remove(kube::kTrainingJobs, "default", "a", {}));
  std::this_thread::sleep_for(milliseconds(200));  // for the controller to see it: a write may end between two looks
  const int by_then = creates;
  std::this_thread::sleep_for(milliseconds(200));  // no event tells of a create that never comes
  EXPECT_EQ(creates, by_then);
  EXPECT_LT(by_then, 1000);
}

TEST(BulkWrites, other_jobs_get_their_pods_while_a_large_one_is_created) {
  RunningController running(
      [&](const WatchedApi::Write& write) -> std::optional<Error> {
        if (write.resource == kube::kPods) std::this_thread::sleep_for(milliseconds(5));
        return std::nullopt;
      },
      {.most_bulk_writes = 2});
  for (const char* name : {"large-a", "large-b", "large-c", "large-d", "large-e"}) running.create_job(name, 1000);
  ASSERT_TRUE(holds_within(seconds(20), [&] { return running.pods("large-e") > 0; }));
  running.create_job("small", 4);
  EXPECT_TRUE(holds_within(seconds(10), [&] { return running.pods("small") == 4; }))
      << "more large ones than workers do not stop it";
  EXPECT_LT(running.pods("large-a"), 1000u);
}

// Milliseconds from a changed spec to the status that tells of it, of one job after the other; the 99th percentile.
double reaction(RunningController& running, int jobs, int rounds) {
  std::vector<double> took;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < jobs; ++i) {
      const std::string name = "job-" + std::to_string(i);
      const auto begin = std::chrono::steady_clock::now();
      const auto changed =
          running.api.patch(kube::kTrainingJobs, "default", name, kube::PatchType::kMerge,
                            {{"spec", {{"deadlines", {{"activeSeconds", 1000 + round + rounds * (i + 1)}}}}}}, "", {});
      EXPECT_TRUE(changed) << changed.error().message;
      const auto generation = running.job(name).meta.generation;
      EXPECT_TRUE(
          holds_within(seconds(20), [&] { return running.job(name).status.observed_generation >= generation; }));
      took.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::sort(took.begin(), took.end());
  return took[took.size() * 99 / 100];
}

TEST(BulkWrites, a_hot_job_does_not_double_the_reaction_to_others) {
  RunningController running([](const WatchedApi::Write& write) -> std::optional<Error> {
    if (write.resource == kube::kPods) std::this_thread::sleep_for(milliseconds(1));
    return std::nullopt;
  });
  constexpr int kJobs = 99;
  for (int i = 0; i < kJobs; ++i) running.create_job("job-" + std::to_string(i), 2);
  running.create_job("hot", 100);
  ASSERT_TRUE(holds_within(seconds(60), [&] { return running.pods("hot") == 100 && running.pods("job-98") == 2; }));
  ASSERT_TRUE(holds_within(seconds(10), [&] { return rests(running); }));
  const double before = reaction(running, kJobs, 2);
  // Its pods fail again and again, as fast as they can be told to.
  std::atomic<bool> stop = false;
  std::atomic<int> failures = 0;
  std::jthread crash_loop([&] {
    while (!stop) {
      const auto page = running.api.list(
          kube::kPods, {.name_space = "default", .label_selector = std::string(api::kLabelJob) + "=hot", .limit = 0});
      for (const kube::Json& pod : page->items) {
        kube::Json failed = pod;
        failed["status"]["phase"] = failures++ % 2 == 0 ? "Failed" : "Running";
        (void)running.api.replace(kube::kPods, "default", pod["metadata"]["name"], failed, "status", {});
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
  });
  const bool begun = holds_within(seconds(60), [&] { return failures > 100; });
  // What else the machine does disturbs one measurement. What the hot job does disturbs each.
  const double beside =
      std::min({reaction(running, kJobs, 2), reaction(running, kJobs, 2), reaction(running, kJobs, 2)});
  stop = true;
  crash_loop.join();
  ASSERT_TRUE(begun);
  // Others may have made the machine busy meanwhile.
  const double quiet = std::max(before, reaction(running, kJobs, 2));
  RecordProperty("quiet_ms", std::to_string(quiet));
  RecordProperty("beside_ms", std::to_string(beside));
  // The machine that tests run on is busy: a few milliseconds are its own. A sanitizer slows this thread's own work for
  // the hot job as well.
  EXPECT_LT(beside, sanitizer::kOn ? 10 * quiet + 200 : 2 * quiet + 20) << quiet << " ms without the hot job";
}

TEST(BulkWrites, a_hundred_idle_jobs_cause_no_write) {
  RunningController running([](const WatchedApi::Write&) { return std::nullopt; }, {.resync_every = seconds(1)});
  for (int i = 0; i < 100; ++i) running.create_job("job-" + std::to_string(i), 4);
  ASSERT_TRUE(holds_within(seconds(60), [&] { return running.watched.created().size() >= 500; }));
  std::this_thread::sleep_for(seconds(6));  // a new leader looks again after five seconds
  const auto before = running.watched.writes();
  std::this_thread::sleep_for(seconds(4));  // of which each is a resync
  auto after = running.watched.writes();
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace lockstep::job::bulk_writes_test
