// The runtime with small shell commands as pods: the status that a kubelet would report, and no process left behind.
#include "operator/local/pod_runtime.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

namespace lockstep::local {
namespace {

using Json = nlohmann::json;
using kube::kPods;
using namespace std::chrono_literals;

class Runtime : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "lockstep-runtime-" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    PodRuntimeOptions options;
    options.machine.folder = folder_;
    options.machine.environment = {"PATH=/usr/bin:/bin", "HOME=/nowhere"};
    options.on_line = [this](const std::string& pod, std::string_view line) {
      const std::lock_guard guard(mutex_);
      lines_.push_back(pod + ": " + std::string(line));
      changed_.notify_all();
    };
    auto runtime = start_pod_runtime(api_, options, SystemClock::instance());
    ASSERT_TRUE(runtime.ok()) << runtime.error().message;
    runtime_ = std::move(*runtime);
  }
  void TearDown() override {
    runtime_.reset();
    EXPECT_TRUE(children_of(getpid()).empty());
    std::filesystem::remove_all(folder_);
  }

  void create(const std::string& name, const std::string& script, Json container = Json::object(),
              Json spec = Json::object()) {
    container["name"] = "trainer";
    if (!container.contains("command")) container["command"] = {"sh", "-c", script};
    spec["containers"] = {container};
    const auto made = api_.create(kPods, "default", {{"metadata", {{"name", name}}}, {"spec", spec}});
    ASSERT_TRUE(made.ok()) << made.error().message;
  }

  // Waits until the pod satisfies `fits` (null: until it is deleted) and returns it.
  Json await(const std::string& name, const std::function<bool(const Json&)>& fits) {
    Json last;
    std::stop_source timeout;
    const auto page = api_.list(kPods, {.field_selector = "metadata.name=" + name});
    for (const Json& pod : page->items) last = pod;
    if (page->items.empty() ? !fits : fits && fits(last)) return last;
    bool done = false;
    const Status status = api_.watch(
        kPods,
        {.field_selector = "metadata.name=" + name, .resource_version = page->resource_version, .timeout_seconds = 10},
        [&](kube::WatchEvent event) {
          if (event.type == kube::WatchEventType::kBookmark) return true;
          last = event.object;
          const bool gone = event.type == kube::WatchEventType::kDeleted;
          done = gone ? !fits : fits && fits(last);
          return !done;
        },
        {});
    EXPECT_TRUE(done) << "pod " << name << " never got there: " << last.dump(1);
    return last;
  }
  static bool running(const Json& pod) { return pod["status"]["phase"] == "Running"; }
  static bool terminal(const Json& pod) {
    return pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed";
  }
  static Json ended(const Json& pod) { return pod["status"]["containerStatuses"][0]["state"]["terminated"]; }

  void await_line(const std::string& line) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 10s, [&] {
      return std::find(lines_.begin(), lines_.end(), line) != lines_.end();
    })) << line;
  }
  std::string log(const std::string& pod) {
    std::ifstream file(folder_ + "/logs/" + pod + ".log");
    return (std::stringstream() << file.rdbuf()).str();
  }

  MemoryApi api_;
  std::string folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  std::unique_ptr<PodRuntime> runtime_;
};

TEST_F(Runtime, a_pod_that_exits_with_zero_succeeds) {
  create("a", "echo hello");
  const Json pod = await("a", terminal);
  EXPECT_EQ(pod["status"]["phase"], "Succeeded");
  EXPECT_EQ(pod["spec"]["nodeName"], "localhost");
  EXPECT_EQ(ended(pod)["exitCode"], 0);
  EXPECT_EQ(ended(pod)["reason"], "Completed");
  EXPECT_EQ(log("a"), "hello\n");
}

TEST_F(Runtime, a_failed_pod_has_its_exit_code_and_its_last_lines) {
  create("a", "echo out; echo the disk is on fire >&2; exit 7");
  const Json pod = await("a", terminal);
  EXPECT_EQ(pod["status"]["phase"], "Failed");
  EXPECT_EQ(ended(pod)["exitCode"], 7);
  EXPECT_EQ(ended(pod)["message"], "out\nthe disk is on fire\n");
}

TEST_F(Runtime, a_signal_is_128_more) {
  create("a", "kill -KILL $$$$" /* a pod spec turns $$ into $ */);
  EXPECT_EQ(ended(await("a", terminal))["exitCode"], 137);
}

TEST_F(Runtime, the_environment_has_the_downward_api_and_expansions) {
  create("a", "",
         {{"command", {"sh", "-c", "echo $NAME $(IP) $(NOT) $BOTH $UID_ $HOME"}},
          {"env",
           {{{"name", "NAME"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}},
            {{"name", "IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}},
            {{"name", "UID_"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.uid"}}}}}},
            {{"name", "BOTH"}, {"value", "$(NAME)-$$(IP)"}}}}});
  const Json pod = await("a", terminal);
  // $(NOT) stays, and the shell then runs it as a command that does not exist.
  EXPECT_NE(log("a").find("a 127.0.0.1 a-$(IP) " + pod["metadata"]["uid"].get<std::string>() + " /nowhere"),
            std::string::npos)
      << log("a");
}

TEST_F(Runtime, a_token_is_given_where_the_variable_says) {
  create(
      "a", "cat $LOCKSTEP_TOKEN_FILE",
      {{"env", {{{"name", "LOCKSTEP_TOKEN_FILE"}, {"value", "/var/run/x/token"}}}},
       {"volumeMounts", {{{"name", "t"}, {"mountPath", "/var/run/x"}}}}},
      {{"volumes", {{{"name", "t"}, {"projected", {{"sources", {{{"serviceAccountToken", {{"path", "token"}}}}}}}}}}}});
  await("a", terminal);
  const Json answer = *api_.create(kube::kTokenReviews, "", {{"spec", {{"token", log("a")}}}});
  EXPECT_EQ(answer["status"]["authenticated"], true) << log("a");
}

TEST_F(Runtime, deletion_is_a_term_signal_first_and_the_pod_stays_until_it_ended) {
  create("a", "trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.05; done");
  await_line("a: up");
  ASSERT_TRUE(api_.remove(kPods, "default", "a").ok());
  EXPECT_EQ(ended(await("a", nullptr))["exitCode"], 3);
  EXPECT_EQ(log("a"), "up\nasked\n");
}

TEST_F(Runtime, a_pod_that_does_not_listen_is_killed_after_its_grace_period) {
  create("a", "trap '' TERM; echo up; sleep 100 & wait; wait");
  await_line("a: up");
  ASSERT_TRUE(api_.remove(kPods, "default", "a", {.grace_period_seconds = 1}).ok());
  EXPECT_EQ(ended(await("a", nullptr))["exitCode"], 137);
}

TEST_F(Runtime, a_forced_deletion_kills_at_once) {
  create("a", "trap '' TERM; echo $$$$; while :; do sleep 1; done");
  await("a", running);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, 10s, [&] { return !lines_.empty(); });
  const pid_t pid = std::stoi(lines_.at(0).substr(3));
  lock.unlock();
  ASSERT_TRUE(api_.remove(kPods, "default", "a", {.grace_period_seconds = 0}).ok());
  runtime_->stop(100s);
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(Runtime, orphans_of_a_dead_pod_are_killed) {
  create("a", "exec 3>&1; setsid sh -c 'echo orphan >&3; echo; sleep 100' | { read line; kill -KILL $$$$; }");
  await_line("a: orphan");
  await("a", terminal);
  EXPECT_TRUE(children_of(getpid()).empty());
}

TEST_F(Runtime, a_worker_is_found_by_its_rank) {
  create("a",
         "RANK=4 sh -c 'echo four; sleep 100; :' & RANK=5 sh -c 'echo five; sleep 100; :' & wait $!; echo died $?");
  await_line("a: four");
  await_line("a: five");
  EXPECT_EQ(runtime_->kill_worker(9).error().code, ErrorCode::kNotFound);
  const auto worker = runtime_->kill_worker(5);
  ASSERT_TRUE(worker.ok()) << worker.error().message;
  EXPECT_EQ(worker->pod, "a");
  await_line("a: died 137");
}

// A pod of slot 3 whose "agent" is a shell that runs two workers, the first of which has a connection.
class Faults : public Runtime {
 protected:
  void SetUp() override {
    Runtime::SetUp();
    create(
        "a",
        "LOCAL_RANK=1 sleep 100 & LOCAL_RANK=0 python3 -c \"import socket, time; l = "
        "socket.create_server((str('127.0.0.1'), "
        "0)); c = socket.create_connection(l.getsockname()); print('there', flush=True); print('read', len(c.recv(1)), "
        "flush=True); time.sleep(100)\" & wait; echo $?",
        {{"env", {{{"name", "LOCKSTEP_SLOT"}, {"value", "3"}}}}});
    await("a", running);
    await_line("a: there");
  }
};

TEST_F(Faults, a_pod_is_found_by_its_slot_with_its_workers_by_local_rank) {
  auto pod = runtime_->find_pod(3);
  ASSERT_TRUE(pod.ok()) << pod.error().message;
  EXPECT_EQ(pod->name, "a");
  ASSERT_EQ(pod->workers.size(), 2U);
  EXPECT_EQ(environment_of(pod->workers[0].pid(), "LOCAL_RANK"), "0");
  EXPECT_EQ(environment_of(pod->workers[1].pid(), "LOCAL_RANK"), "1");
  EXPECT_EQ(runtime_->find_pod(4).error().message, "slot 4 has no pod now");
  ASSERT_TRUE(pod->agent.signal(SIGKILL).ok());
  EXPECT_EQ(ended(await("a", terminal))["exitCode"], 137);
  EXPECT_EQ(pod->agent.signal(SIGCONT).error().code, ErrorCode::kNotFound) << "whoever has its number now";
  EXPECT_EQ(runtime_->find_pod(3).error().code, ErrorCode::kNotFound);
}

TEST_F(Faults, a_connection_is_cut_under_both_of_its_ends) {
  auto pod = runtime_->find_pod(3);
  ASSERT_TRUE(pod.ok()) << pod.error().message;
  const auto cut = pod->workers[0].cut_connection(5);
  if (!cut && (cut.error().code == ErrorCode::kForbidden || cut.error().code == ErrorCode::kUnavailable)) {
    GTEST_SKIP() << cut.error().message;
  }
  ASSERT_TRUE(cut.ok()) << cut.error().message;
  EXPECT_TRUE(cut->starts_with("127.0.0.1:")) << *cut;
  await_line("a: read 0");
  EXPECT_EQ(pod->workers[1].cut_connection(0).error().code, ErrorCode::kNotFound) << "it has none";
}

TEST_F(Runtime, a_pod_that_cannot_start_fails_with_a_sentence) {
  create("a", "", {{"command", {"no-such-command"}}});
  EXPECT_EQ(ended(await("a", terminal))["message"],
            "the command \"no-such-command\" was found neither beside lockstep nor in PATH");
  create("b", "true", {{"workingDir", "/not/there"}});
  EXPECT_EQ(ended(await("b", terminal))["message"],
            "the working folder /not/there cannot be entered: No such file or directory");
  create("c", "true", {{"volumeMounts", {{{"name", "s"}, {"mountPath", "/s"}}}}},
         {{"volumes", {{{"name", "s"}, {"secret", {{"secretName", "x"}}}}}}});
  EXPECT_EQ(ended(await("c", terminal))["message"],
            "the volume \"s\" (secret) cannot be given without a cluster: remove it from the job file for "
            "`lockstep run`");
}

TEST_F(Runtime, stop_asks_first_and_kills_after_the_grace) {
  create("a", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done");
  create("b", "trap '' TERM; echo up; while :; do sleep 0.05; done");
  await_line("a: up");
  await_line("b: up");
  runtime_->stop(300ms);
  EXPECT_EQ(log("a"), "up\nbye\n");
  EXPECT_TRUE(children_of(getpid()).empty());
}

TEST_F(Runtime, logs_are_read_and_followed) {
  create("a", "echo 1; echo 2; sleep 0.2; echo 3");
  await("a", running);
  std::string text;
  ASSERT_TRUE(api_.read_log("default", "a", {.follow = true},
                            [&](std::string_view data) {
                              text += data;
                              return true;
                            },
                            {})
                  .ok());
  EXPECT_EQ(text, "1\n2\n3\n");
  text.clear();
  ASSERT_TRUE(api_.read_log("default", "a", {.tail_lines = 2},
                            [&](std::string_view data) {
                              text += data;
                              return true;
                            },
                            {})
                  .ok());
  EXPECT_EQ(text, "2\n3\n");
}

TEST_F(Runtime, a_volume_is_seen_at_its_path_though_the_machine_has_no_such_folder) {
  if (const Status permitted = mounts_permitted(); !permitted) GTEST_SKIP() << permitted.error().message;
  create("a",
         "echo kept > /no-such-folder-here/deep/file && cat /no-such-folder-here/deep/file /etc/hostname >/dev/null "
         "&& ls -d /usr/bin && echo fine",
         {{"volumeMounts", {{{"name", "d"}, {"mountPath", "/no-such-folder-here/deep"}}}}},
         {{"volumes", {{{"name", "d"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}}}});
  EXPECT_EQ(await("a", terminal)["status"]["phase"], "Succeeded") << log("a");
  EXPECT_EQ(log("a"), "/usr/bin\nfine\n");
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/claims/data/file"));
  EXPECT_FALSE(std::filesystem::exists("/no-such-folder-here"));
  create("b", "cat /no-such-folder-here/x/file; echo no > /no-such-folder-here/x/file && echo written",
         {{"volumeMounts", {{{"name", "d"}, {"mountPath", "/no-such-folder-here/x"}, {"readOnly", true}}}}},
         {{"volumes", {{{"name", "d"}, {"hostPath", {{"path", folder_ + "/claims/data"}}}}}}});
  await("b", terminal);
  EXPECT_TRUE(log("b").starts_with("kept\n")) << log("b");
  EXPECT_EQ(log("b").find("written"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::local
