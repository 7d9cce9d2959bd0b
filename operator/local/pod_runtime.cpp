#include "operator/local/pod_runtime.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/timestamp.h"
#include "operator/local/pod_log.h"
#include "operator/local/pod_status.h"

namespace lockstep::local {
namespace {

using Json = nlohmann::json;
using kube::kPods;

constexpr size_t kLongestLine = 64 * 1024;  // longer ones are split

const Json& meta_of(const Json& pod) {
  return pod.at("metadata");
}
std::string uid_of(const Json& pod) {
  return meta_of(pod).at("uid");
}
std::string name_of(const Json& pod) {
  return meta_of(pod).at("name");
}
std::string space_of(const Json& pod) {
  return meta_of(pod).at("namespace");
}

// A pod whose process runs.
struct Running {
  Json pod;
  Process process;
  ContainerTimes times;
  std::shared_ptr<PodLog> log;
  std::string line;  // the unfinished last one
  std::optional<MonotonicTime> kill_at;
  bool removed = false;  // the API has deleted it: there is no status to write
};

class Runtime final : public PodRuntime {
 public:
  Runtime(MemoryApi& api, PodRuntimeOptions options, Clock& clock)
      : api_(api), options_(std::move(options)), clock_(clock) {}

  ~Runtime() override {
    stop(Duration::zero());
    if (epoll_ >= 0) close(epoll_);
    if (wake_ >= 0) close(wake_);
  }

  Status start() {
    std::error_code error;
    std::filesystem::create_directories(options_.machine.folder + "/logs", error);
    if (error) {
      return fail(ErrorCode::kUnavailable,
                  "cannot create the folder " + options_.machine.folder + "/logs: " + error.message());
    }
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_ < 0 || wake_ < 0 || !add(wake_)) {
      return fail(ErrorCode::kExhausted, std::string("cannot create an event loop: ") + strerror(errno));
    }
    adopt_orphans();
    LOCKSTEP_CHECK_OK(announce_node());
    api_.set_log_reader([this](const std::string&, const std::string& pod, const kube::LogOptions& how,
                               const std::function<bool(std::string_view)>& on_data, std::stop_token stop) -> Status {
      std::shared_ptr<PodLog> log;
      {
        const std::lock_guard guard(mutex_);
        const auto found = logs_.find(pod);
        if (found == logs_.end()) return fail(ErrorCode::kNotFound, "pod \"" + pod + "\" has no log yet");
        log = found->second;
      }
      return log->read(how.tail_lines, how.follow, on_data, std::move(stop));
    });
    loop_ = std::thread([this] { run(); });
    watch_ = std::jthread([this](std::stop_token stop) { watch(stop); });
    return {};
  }

  void stop(Duration grace) override {
    const std::lock_guard one_at_a_time(stop_mutex_);
    if (!loop_.joinable()) return;
    api_.set_log_reader(nullptr);
    watch_.request_stop();
    watch_.join();
    post([this, grace] { begin_stop(grace); });
    loop_.join();
  }

  void kill_all() override {
    post([this] { begin_stop(Duration::zero()); });
  }

  Result<Worker> kill_worker(int rank) override {
    return ask<Worker>([this, rank] { return kill_rank(rank); });
  }

  Result<RunningPod> find_pod(int slot) override {
    return ask<RunningPod>([this, slot] { return pod_of(slot); });
  }

 private:
  Status announce_node() {
    const std::string now = format_timestamp(clock_.wall_now());
    const std::string& name = options_.machine.node_name;
    const auto made = api_.create(kube::kNodes, "", {{"metadata", {{"name", name}}}});
    if (!made && made.error().code != ErrorCode::kAlreadyExists) return made.error();
    const Json ready = {{"type", "Ready"}, {"status", "True"}, {"reason", "KubeletReady"}, {"lastTransitionTime", now}};
    const auto told =
        api_.patch(kube::kNodes, "", name, kube::PatchType::kMerge, {{"status", {{"conditions", {ready}}}}}, "status");
    return told ? Status() : told.error();
  }

  // --- any thread ---

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = write(wake_, &one, sizeof one);
  }

  // Runs `work` on the loop's thread and returns its result.
  template <typename Answer>
  Result<Answer> ask(std::function<Result<Answer>()> work) {
    const auto answer = std::make_shared<std::promise<Result<Answer>>>();
    auto future = answer->get_future();
    {
      const std::lock_guard guard(mutex_);
      if (ended_) return fail(ErrorCode::kCancelled, "the job has ended");
      inbox_.push_back([work = std::move(work), answer] { answer->set_value(work()); });
    }
    wake();
    return future.get();
  }

  void post(std::function<void()> work) {
    {
      const std::lock_guard guard(mutex_);
      if (ended_) return;
      inbox_.push_back(std::move(work));
    }
    wake();
  }

  // --- the watcher's thread ---

  void watch(std::stop_token stop) {
    while (!stop.stop_requested()) {
      auto page = api_.list(kPods, {.limit = 0});
      if (!page) return log::error("cannot list pods", {{"error", page.error().message}});
      std::string version = page->resource_version;
      post([this, pods = std::move(page->items)] { synchronise(pods); });
      Status status;
      while (status.ok() && !stop.stop_requested()) {
        status = api_.watch(
            kPods, {.resource_version = version},
            [&](kube::WatchEvent event) {
              version = meta_of(event.object).at("resourceVersion");
              if (event.type == kube::WatchEventType::kBookmark) return true;
              const bool gone = event.type == kube::WatchEventType::kDeleted;
              post([this, gone, pod = std::move(event.object)] { gone ? forget(pod) : look_at(pod); });
              return true;
            },
            stop);
      }
    }
  }

  // --- the loop's thread ---

  bool add(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
  }

  void run() {
    while (!stopping_ || !running_.empty()) {
      std::array<epoll_event, 64> events{};
      const int count = epoll_wait(epoll_, events.data(), events.size(), timeout_ms());
      for (int i = 0; i < count; ++i) handle(events[static_cast<size_t>(i)].data.fd);
      finish_ended();
      kill_overdue();
    }
    kill_children([](pid_t) { return false; });
    std::vector<std::function<void()>> left;
    {
      const std::lock_guard guard(mutex_);
      ended_ = true;
      left.swap(inbox_);
    }
    for (const auto& work : left) work();
  }

  int timeout_ms() const {
    std::optional<MonotonicTime> first;
    for (const auto& [uid, one] : running_) {
      if (one.kill_at && (!first || *one.kill_at < *first)) first = one.kill_at;
    }
    if (!first) return -1;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*first - clock_.now()).count() + 1;
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }

  void handle(int fd) {
    if (fd == wake_) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t ignored = read(wake_, &count, sizeof count);
      std::vector<std::function<void()>> work;
      {
        const std::lock_guard guard(mutex_);
        work.swap(inbox_);
      }
      for (const auto& one : work) one();
      return;
    }
    for (auto& [uid, one] : running_) {
      if (fd == one.process.output) return pump(one, 16);
      if (fd == one.process.pidfd) return dead_.push_back(uid);
    }
  }

  void synchronise(const std::vector<Json>& pods) {
    std::set<std::string> there;
    for (const Json& pod : pods) {
      there.insert(uid_of(pod));
      look_at(pod);
    }
    for (auto& [uid, one] : running_) {
      if (there.count(uid) == 0) forget(one.pod);
    }
  }

  void look_at(const Json& pod) {
    const std::string uid = uid_of(pod);
    const auto found = running_.find(uid);
    const bool leaving = meta_of(pod).contains("deletionTimestamp");
    if (found == running_.end()) {
      if (!leaving && seen_.insert(uid).second) begin(pod);
      return;
    }
    if (!leaving) return;
    const auto grace = std::chrono::seconds(meta_of(pod).value("deletionGracePeriodSeconds", 30));
    terminate(found->second, grace);
  }

  // The API has deleted the pod while its process runs: a forced deletion.
  void forget(const Json& pod) {
    seen_.erase(uid_of(pod));
    const auto found = running_.find(uid_of(pod));
    if (found == running_.end()) return;
    found->second.removed = true;
    kill(found->second.process.pid, SIGKILL);
  }

  void begin(const Json& pod) {
    if (stopping_) return;
    const std::string phase = pod.value("status", Json::object()).value("phase", "Pending");
    if (phase != "Pending") return;
    const auto bound =
        api_.patch(kPods, space_of(pod), name_of(pod), kube::PatchType::kMerge,
                   {{"metadata", {{"uid", uid_of(pod)}}}, {"spec", {{"nodeName", options_.machine.node_name}}}});
    if (!bound) return;  // it was deleted meanwhile
    auto started = launch(pod);
    if (!started) {
      log::warn("a pod cannot be started", {{"pod", name_of(pod)}, {"error", started.error().message}});
      write_status(pod, unstartable_status(*bound, clock_.wall_now(), started.error().message));
      return;
    }
    Running& one = running_[uid_of(pod)] = std::move(*started);
    add(one.process.pidfd);
    add(one.process.output);
    write_status(pod, running_status(*bound, options_.machine, one.times.started));
  }

  Result<Running> launch(const Json& pod) {
    LOCKSTEP_TRY(PodProcess wanted, make_pod_process(pod, options_.machine));
    std::error_code error;
    for (const std::string& folder : wanted.folders) {
      std::filesystem::create_directories(folder, error);
      if (error) return fail(ErrorCode::kUnavailable, "cannot create the folder " + folder + ": " + error.message());
    }
    if (!wanted.token_file.empty()) {
      LOCKSTEP_CHECK_OK(write_token(wanted.token_file, {space_of(pod), name_of(pod), uid_of(pod)}));
    }
    Running one;
    one.pod = pod;
    one.log = std::make_shared<PodLog>(options_.machine.folder + "/logs/" + name_of(pod) + ".log");
    {
      const std::lock_guard guard(mutex_);
      logs_[name_of(pod)] = one.log;
    }
    one.times.started = clock_.wall_now();
    LOCKSTEP_TRY(one.process, start_process(wanted.process));
    return one;
  }

  Status write_token(const std::string& path, const TokenOwner& owner) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const std::string token = api_.issue_token(owner);
    const bool fine = fd >= 0 && write(fd, token.data(), token.size()) == static_cast<ssize_t>(token.size());
    const std::string why = strerror(errno);
    if (fd >= 0) close(fd);
    return fine ? Status() : fail(ErrorCode::kUnavailable, "cannot write " + path + ": " + why);
  }

  void terminate(Running& one, Duration grace) {
    const MonotonicTime deadline = clock_.now() + grace;
    if (!one.kill_at) kill(one.process.pid, SIGTERM);
    if (!one.kill_at || deadline < *one.kill_at) one.kill_at = deadline;
  }

  void begin_stop(Duration grace) {
    stopping_ = true;
    // The watch has ended, perhaps just before it reported a deletion.
    if (const auto page = api_.list(kPods, {.limit = 0})) synchronise(page->items);
    for (auto& [uid, one] : running_) terminate(one, grace);
  }

  void kill_overdue() {
    for (auto& [uid, one] : running_) {
      if (!one.kill_at || clock_.now() < *one.kill_at) continue;
      kill(one.process.pid, SIGKILL);
      one.kill_at = clock_.now() + std::chrono::minutes(1);
    }
  }

  // Reads available output, at most `blocks`, so that a pod that never stops printing does not delay the others.
  void pump(Running& one, int blocks) {
    std::array<char, 16 * 1024> block{};
    ssize_t got = -1;
    while (blocks-- > 0 && (got = read(one.process.output, block.data(), block.size())) > 0) {
      const std::string_view data(block.data(), static_cast<size_t>(got));
      one.log->append(data);
      if (options_.on_line) pass_lines(one, data);
    }
    if (got == 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, one.process.output, nullptr);
  }

  void pass_lines(Running& one, std::string_view data) {
    const std::string name = name_of(one.pod);
    while (!data.empty()) {
      const auto end = data.find('\n');
      one.line.append(data.substr(0, end));
      data.remove_prefix(end == std::string_view::npos ? data.size() : end + 1);
      if (end == std::string_view::npos && one.line.size() < kLongestLine) return;
      options_.on_line(name, one.line);
      one.line.clear();
    }
  }

  // Handles all pods that ended since the last call: it searches for their orphans once, among all processes of the
  // machine.
  void finish_ended() {
    std::vector<std::pair<std::string, ProcessEnd>> finished;
    for (std::string& uid : std::exchange(dead_, {})) {
      if (const auto end = reap(running_.at(uid).process.pid)) finished.emplace_back(std::move(uid), *end);
    }
    if (finished.empty()) return;
    std::set<pid_t> living;
    for (const auto& [uid, one] : running_) living.insert(one.process.pid);
    for (const auto& [uid, end] : finished) living.erase(running_.at(uid).process.pid);
    // Orphans of a pod became children of this process: when the first process of a pod ends, the whole pod ends.
    kill_children([&](pid_t pid) { return living.contains(pid); });
    for (const auto& [uid, end] : finished) finish(uid, end);
  }

  void finish(const std::string& uid, const ProcessEnd& end) {
    Running& one = running_.at(uid);
    pump(one, std::numeric_limits<int>::max());
    if (options_.on_line && !one.line.empty()) options_.on_line(name_of(one.pod), one.line);
    one.log->finish();
    one.times.finished = clock_.wall_now();
    close(one.process.pidfd);
    close(one.process.output);
    const Running done = std::move(one);
    running_.erase(uid);
    if (done.removed) return;
    write_status(done.pod, ended_status(done.pod, done.times, end, done.log->tail()));
    const auto now = api_.get(kPods, space_of(done.pod), name_of(done.pod));
    if (now && uid_of(*now) == uid && meta_of(*now).contains("deletionTimestamp")) {
      const Status ignored =
          api_.remove(kPods, space_of(done.pod), name_of(done.pod), {.uid = uid, .grace_period_seconds = 0});
    }
  }

  void write_status(const Json& pod, Json status) {
    const auto told = api_.patch(kPods, space_of(pod), name_of(pod), kube::PatchType::kMerge,
                                 {{"metadata", {{"uid", uid_of(pod)}}}, {"status", std::move(status)}}, "status");
    if (!told && told.error().code != ErrorCode::kNotFound && told.error().code != ErrorCode::kConflict) {
      log::error("cannot write the status of a pod", {{"pod", name_of(pod)}, {"error", told.error().message}});
    }
  }

  Result<Worker> kill_rank(int rank) {
    for (const auto& [uid, one] : running_) {
      for (const pid_t child : children_of(one.process.pid)) {
        // Opened before the check, so that a number that passed to another process meanwhile cannot be hit.
        const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
        if (pidfd < 0) continue;
        const bool right = environment_of(child, "RANK") == std::to_string(rank);
        const bool sent = right && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0;
        close(pidfd);
        if (sent) return Worker{child, name_of(one.pod)};
      }
    }
    return fail(ErrorCode::kNotFound, "no process has rank " + std::to_string(rank) + " now");
  }

  // Only this process reaps agents, so their numbers are still theirs. A worker's number may have passed to another
  // process, which then is no child of the agent.
  Result<RunningPod> pod_of(int slot) {
    for (const auto& [uid, one] : running_) {
      const pid_t agent = one.process.pid;
      if (environment_of(agent, "LOCKSTEP_SLOT") != std::to_string(slot)) continue;
      RunningPod found;
      found.name = name_of(one.pod);
      LOCKSTEP_TRY(found.agent, ProcessHandle::open(agent));
      std::map<int, ProcessHandle> workers;
      for (const pid_t child : children_of(agent)) {
        auto handle = ProcessHandle::open(child);
        const auto local_rank = environment_of(child, "LOCAL_RANK");
        const auto agents = children_of(agent);
        if (!handle || !local_rank || std::find(agents.begin(), agents.end(), child) == agents.end()) continue;
        workers[atoi(local_rank->c_str())] = std::move(*handle);
      }
      for (auto& [rank, handle] : workers) found.workers.push_back(std::move(handle));
      return found;
    }
    return fail(ErrorCode::kNotFound, "slot " + std::to_string(slot) + " has no pod now");
  }

  MemoryApi& api_;
  const PodRuntimeOptions options_;
  Clock& clock_;
  int epoll_ = -1, wake_ = -1;

  std::mutex stop_mutex_;  // held for the whole of stop()
  std::thread loop_;
  std::jthread watch_;

  std::mutex mutex_;
  std::vector<std::function<void()>> inbox_;             // these protected by mutex_
  std::map<std::string, std::shared_ptr<PodLog>> logs_;  // by pod name
  bool ended_ = false;

  // Used by the loop's thread alone.
  std::map<std::string, Running> running_;  // by uid
  std::vector<std::string> dead_;           // uids of running_ whose process has ended
  std::set<std::string> seen_;              // uids that were started once
  bool stopping_ = false;
};

}  // namespace

Result<std::unique_ptr<PodRuntime>> start_pod_runtime(MemoryApi& api, const PodRuntimeOptions& options, Clock& clock) {
  auto runtime = std::make_unique<Runtime>(api, options, clock);
  LOCKSTEP_CHECK_OK(runtime->start());
  return std::unique_ptr<PodRuntime>(std::move(runtime));
}

}  // namespace lockstep::local
