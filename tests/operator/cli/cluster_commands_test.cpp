// status, logs, submit and delete over the in-memory API: their output and their requests.
#include "operator/cli/cluster_commands.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "operator/api/object.h"
#include "operator/job/api_generation_store.h"
#include "operator/local/memory_api.h"

namespace lockstep::cli::cluster_commands_test {
namespace {

using nlohmann::json;

class ClusterCommands : public testing::Test {
 protected:
  void SetUp() override { out_ = open_memstream(&text_, &size_); }
  void TearDown() override {
    fclose(out_);
    free(text_);
  }
  Target target() { return {api_, "default", clock_, out_}; }
  std::string printed() {
    fflush(out_);
    return std::string(text_, size_);
  }
  json make_job(const std::string& name, const json& status = json::object()) {
    const auto made = api_.create(kube::kTrainingJobs, "default",
                                  {{"metadata", {{"name", name}}}, {"spec", {{"command", {"x"}}, {"nodes", 2}}}});
    EXPECT_TRUE(made.ok());
    if (status.empty()) return *made;
    return *api_.patch(kube::kTrainingJobs, "default", name, kube::PatchType::kMerge, {{"status", status}}, "status");
  }
  void make_pod(const json& job, int slot) {
    const auto made = api_.create(kube::kPods, "default",
                                  {{"metadata",
                                    {{"name", "pod-" + std::to_string(slot)},
                                     {"labels",
                                      {{api::kLabelJobUid, job["metadata"]["uid"]},
                                       {api::kLabelSlot, std::to_string(slot)},
                                       {api::kLabelIncarnation, "1"}}}}},
                                   {"spec", {{"nodeName", "node-" + std::to_string(slot)}}}});
    EXPECT_TRUE(made.ok());
  }
  // Generation 1 of these slots, in order of rank.
  void record(const json& job, const std::vector<int>& slots) {
    rendezvous::Record record;
    record.generation = 1;
    for (const int slot : slots) record.members.push_back({slot, 1, 1});
    job::ApiGenerationStore records(api_);
    const std::string uid = job["metadata"]["uid"];
    const auto stored = records.load("default", job["metadata"]["name"], uid);
    ASSERT_TRUE(records.compare_and_set("default", job["metadata"]["name"], uid, stored->version, record).ok());
  }
  // Each pod writes its name, and a line of each rank.
  void pods_write() {
    api_.set_log_reader([](const std::string&, const std::string& pod, const kube::LogOptions&,
                           const std::function<bool(std::string_view)>& on_data, std::stop_token) -> Status {
      on_data(pod + "\n[0] he");
      on_data("llo\n[1] hello");
      return {};
    });
  }

  ManualClock clock_;
  local::MemoryApi api_{clock_};
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* out_ = nullptr;
};

TEST_F(ClusterCommands, status_is_a_table) {
  make_job("a", {{"state", "Running"},
                 {"nodes", {{"desired", 2}, {"ready", 1}, {"summary", "1/2"}}},
                 {"restarts", {{"total", 3}}},
                 {"progress", {{"step", 5}, {"totalSteps", 10}, {"loss", "2.5"}, {"samplesPerSecond", "12"}}}});
  clock_.advance(std::chrono::seconds(42));
  make_job("b");
  ASSERT_TRUE(status(target(), {}, {}).ok());
  EXPECT_EQ(printed(),
            "NAME  STATE    READY  STEP  LOSS  SAMPLES/S  RESTARTS  AGE\n"
            "a     Running  1/2    5/10  2.5   12         3         42s\n"
            "b     Pending  -      -     -     -          0         0s\n");
}

TEST_F(ClusterCommands, an_empty_namespace_is_said_to_be_empty) {
  ASSERT_TRUE(status(target(), {}, {}).ok());
  EXPECT_EQ(printed(), "there are no TrainingJobs in namespace default\n");
}

TEST_F(ClusterCommands, an_unknown_job_is_one_sentence_for_every_command) {
  const std::string sentence = "there is no TrainingJob \"x\" in namespace default";
  EXPECT_EQ(status(target(), {.name = "x"}, {}).error().message, sentence);
  EXPECT_EQ(logs(target(), {.name = "x"}, {}).error().message, sentence);
  EXPECT_EQ(remove_jobs(target(), {"x"}).error().message, sentence);
}

TEST_F(ClusterCommands, one_job_shows_conditions_and_attempts) {
  make_job("a",
           {{"state", "Failed"},
            {"conditions", {{{"type", "Failed"}, {"status", "True"}, {"reason", "Because"}, {"message", "it broke"}}}},
            {"attempts", {{{"generation", 1}, {"cause", "ProcessExit"}, {"firstFailingRank", 1}, {"exitCode", 3}}}}});
  ASSERT_TRUE(status(target(), {.name = "a"}, {}).ok());
  EXPECT_NE(printed().find("Failed     True    Because"), std::string::npos) << printed();
  EXPECT_NE(printed().find("1           ProcessExit  1     3"), std::string::npos) << printed();
}

TEST_F(ClusterCommands, watching_ends_with_the_job_and_has_its_exit_status) {
  make_job("a", {{"state", "Failed"},
                 {"conditions", {{{"type", "Failed"}, {"status", "True"}, {"reason", "R"}, {"message", "m"}}}},
                 {"attempts", {{{"generation", 1}, {"cause", "ProcessExit"}, {"exitCode", 7}}}}});
  const auto result = status(target(), {.name = "a", .watch = true}, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, 7);
  EXPECT_NE(printed().find("a failed after 0:00: R: m"), std::string::npos) << printed();
}

TEST_F(ClusterCommands, submit_creates_in_the_namespace_that_was_asked_for) {
  const json job = {{"metadata", {{"name", "a"}}}, {"spec", {{"nodes", 1}}}};
  ASSERT_TRUE(submit(target(), job, false, {}).ok());
  EXPECT_EQ(printed(), "trainingjob.lockstep.dev/a created\n");
  EXPECT_TRUE(api_.get(kube::kTrainingJobs, "default", "a").ok());
}

TEST_F(ClusterCommands, delete_continues_after_an_unknown_name) {
  make_job("b");
  EXPECT_FALSE(remove_jobs(target(), {"x", "b"}).ok());
  EXPECT_EQ(printed(), "trainingjob.lockstep.dev/b deleted\n");
}

TEST_F(ClusterCommands, logs_come_by_slot_and_by_rank) {
  const json job = make_job("a");
  make_pod(job, 1);
  make_pod(job, 0);
  api_.set_log_reader([](const std::string&, const std::string& pod, const kube::LogOptions&,
                         const std::function<bool(std::string_view)>& on_data, std::stop_token) -> Status {
    on_data(pod + "\n[" + pod.substr(4) + "] he");
    on_data("llo");
    return {};
  });
  ASSERT_TRUE(logs(target(), {.name = "a"}, {}).ok());
  EXPECT_EQ(printed(), "pod-0\n[0] hello\npod-1\n[1] hello\n");
  EXPECT_EQ(logs(target(), {.name = "a", .rank = 2}, {}).error().message, "a has ranks 0 to 1, so not 2");
}

TEST_F(ClusterCommands, logs_of_a_rank_are_those_of_the_pod_that_has_it) {
  const json job = make_job("a");
  make_pod(job, 0);
  make_pod(job, 1);
  pods_write();
  EXPECT_EQ(logs(target(), {.name = "a", .rank = 0}, {}).error().message, "no pod of a has rank 0 now");
  record(job, {1, 0});
  ASSERT_TRUE(logs(target(), {.name = "a", .rank = 0}, {}).ok());
  EXPECT_EQ(printed(), "pod-1\n[0] hello\n");
  record(job, {0, 1});
  ASSERT_TRUE(logs(target(), {.name = "a", .rank = 0}, {}).ok());
  EXPECT_EQ(printed(), "pod-1\n[0] hello\npod-0\n[0] hello\n");
}

TEST_F(ClusterCommands, followed_logs_of_a_rank_go_on_in_the_pod_to_which_it_moves) {
  const json job = make_job("a");
  for (const int slot : {0, 1}) {
    make_pod(job, slot);
    const json running = {{"status", {{"phase", "Running"}}}};
    ASSERT_TRUE(
        api_.patch(kube::kPods, "default", "pod-" + std::to_string(slot), kube::PatchType::kMerge, running, "status"));
  }
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::string> read;
  api_.set_log_reader([&](const std::string&, const std::string& pod, const kube::LogOptions&,
                          const std::function<bool(std::string_view)>&, std::stop_token) -> Status {
    const std::lock_guard guard(mutex);
    read.push_back(pod);
    wake.notify_all();
    return {};
  });
  const auto wait_for = [&](std::size_t pods) {
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, std::chrono::seconds(20), [&] { return read.size() == pods; });
  };
  std::jthread following(
      [&](std::stop_token stop) { EXPECT_TRUE(logs(target(), {.name = "a", .follow = true, .rank = 0}, stop).ok()); });
  record(job, {1, 0});
  EXPECT_TRUE(wait_for(1)) << "before the first generation no pod has the rank";
  record(job, {0, 1});
  EXPECT_TRUE(wait_for(2));
  following.request_stop();
  following.join();
  EXPECT_EQ(read, (std::vector<std::string>{"pod-1", "pod-0"}));
}

TEST_F(ClusterCommands, status_and_explain_show_which_pod_has_which_rank) {
  const json job = make_job("a");
  make_pod(job, 0);
  record(job, {1, 0});
  const std::string ranks =
      "\nRANKS  POD    NODE\n"
      "0      -      -\n"
      "1      pod-0  node-0\n";
  ASSERT_TRUE(status(target(), {.name = "a"}, {}).ok());
  EXPECT_TRUE(printed().ends_with(ranks)) << printed();
  ASSERT_TRUE(explain(target(), "a").ok());
  EXPECT_TRUE(printed().ends_with(ranks)) << printed();
}

TEST_F(ClusterCommands, a_job_without_pods_says_why) {
  make_job("a");
  EXPECT_EQ(logs(target(), {.name = "a"}, {}).error().message, "a has no pods yet");
}

}  // namespace
}  // namespace lockstep::cli::cluster_commands_test
