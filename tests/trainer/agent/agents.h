// A job of real agents and a real coordinator on the loopback, in one test process.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "operator/rendezvous/coordinator.h"
#include "tests/operator/rendezvous/fakes.h"

namespace lockstep::trainer::agent {

namespace rv = rendezvous;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A folder that is removed with everything in it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-agent-test.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A child process with its own environment; what it prints goes to a file. Killed and reaped by the destructor.
class Child {
 public:
  Child(std::vector<std::string> argv, const std::map<std::string, std::string>& more, const std::string& output) {
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
    for (const auto& [name, value] : more) environment.push_back(fmt::format("{}={}", name, value));
    std::vector<char*> argv_pointers, environment_pointers;
    for (std::string& text : argv) argv_pointers.push_back(text.data());
    for (std::string& text : environment) environment_pointers.push_back(text.data());
    argv_pointers.push_back(nullptr);
    environment_pointers.push_back(nullptr);
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(file, 1);
      ::dup2(file, 2);
      ::execve(argv_pointers[0], argv_pointers.data(), environment_pointers.data());
      ::_exit(99);
    }
    ::close(file);
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  // Its exit code (128 + signal), -1 when it does not end within `patience`.
  int wait(std::chrono::milliseconds patience = seconds(20)) {
    pollfd ended{static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)), POLLIN, 0};
    const bool in_time = ::poll(&ended, 1, static_cast<int>(patience.count())) == 1;
    ::close(ended.fd);
    int status = 0;
    if (!in_time || ::waitpid(pid_, &status, WNOHANG) != pid_) return -1;
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t pid_ = -1;
};

// False also of one that has ended and that nobody has collected yet.
inline bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t close = stat.rfind(')');  // the name before it may hold anything
  return close != std::string::npos && close + 2 < stat.size() && stat[close + 2] != 'Z' && stat[close + 2] != 'X';
}

class AgentJobTest : public testing::Test {
 protected:
  Folder folder;
  rv::KeyPair authority = *rv::make_authority();
  rv::KeyPair serving = *rv::issue_serving_certificate(authority);
  rv::MemoryStore store;
  rv::NameAuthenticator authenticator;
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<rv::Coordinator> coordinator;
  int port = 0;
  rv::JobPlan plan;
  std::vector<std::unique_ptr<Child>> agents;

  void SetUp() override {
    start_coordinator(1);
    plan.name_space = "ns";
    plan.name = "a";
    plan.uid = "uid";
    plan.kind = rv::Kind::kTorch;
    plan.stop_grace_seconds = 5;
  }
  void TearDown() override {
    if (HasFailure()) {
      for (std::size_t slot = 0; slot < agents.size(); ++slot) std::cout << output(slot);
    }
  }

  void start_coordinator(std::int64_t term) {
    rv::CoordinatorOptions options;
    options.listen_address = "127.0.0.1";
    options.port = port;
    options.certificate_pem = serving.certificate_pem;
    options.private_key_pem = serving.private_key_pem;
    options.term = term;
    auto started = rv::start_coordinator(options, store, authenticator, SystemClock::instance(),
                                         [this](const std::string&, const std::string&) {
                                           const std::lock_guard guard(mutex);
                                           changed.notify_all();
                                         });
    ASSERT_TRUE(started) << started.error().message;
    coordinator = std::move(*started);
    port = std::stoi(coordinator->address().substr(coordinator->address().rfind(':') + 1));
  }

  std::map<std::string, std::string> environment(int slot, std::int64_t incarnation = 1) {
    const std::string pod = fmt::format("a-1234-{}-{}", slot, incarnation);
    std::ofstream(folder / ("token-" + pod)) << "token-of-" << pod << "\n";
    return {{rv::kEnvCoordinator, coordinator->address()},
            {rv::kEnvCoordinatorCa, authority.certificate_pem},
            {rv::kEnvNamespace, "ns"},
            {rv::kEnvPodName, pod},
            {rv::kEnvPodUid, "uid-of-" + pod},
            {rv::kEnvPodIp, "127.0.0.1"},
            {rv::kEnvSlot, std::to_string(slot)},
            {rv::kEnvIncarnation, std::to_string(incarnation)},
            {rv::kEnvProcsPerNode, std::to_string(plan.procs_per_node)},
            {rv::kEnvTokenFile, folder / ("token-" + pod)},
            {"OUT", folder / "workers"}};
  }
  rv::ExpectedMember expected(int slot, std::int64_t incarnation = 1) {
    const std::string pod = fmt::format("a-1234-{}-{}", slot, incarnation);
    return {slot, incarnation, pod, "uid-of-" + pod, ""};
  }
  std::unique_ptr<Child> agent(const std::vector<std::string>& command, std::map<std::string, std::string> variables,
                               std::size_t slot) {
    std::vector<std::string> argv = {LOCKSTEP_AGENT, "run", "--"};
    argv.insert(argv.end(), command.begin(), command.end());
    return std::make_unique<Child>(argv, variables, folder / fmt::format("agent-{}", slot));
  }
  void start_job(int slots, int procs, const std::vector<std::string>& command) {
    plan.slots = slots;
    plan.procs_per_node = procs;
    for (int slot = 0; slot < slots; ++slot) plan.members.push_back(expected(slot));
    coordinator->set_job(plan);
    for (int slot = 0; slot < slots; ++slot) {
      agents.push_back(agent(command, environment(slot), static_cast<std::size_t>(slot)));
    }
  }
  void handled(std::int64_t generation) {
    plan.handled_generation = generation;
    coordinator->set_job(plan);
  }

  std::string output(std::size_t slot) const { return contents(folder / fmt::format("agent-{}", slot)); }

  // What workers write with `shell_worker`: "rank generation pid" for each start.
  struct Started {
    int rank = 0;
    std::int64_t generation = 0;
    pid_t pid = 0;
  };
  std::vector<Started> started(std::int64_t generation) {
    std::vector<Started> found;
    for (const std::string& line : lines_of(contents(folder / "workers"))) {
      Started one;
      std::istringstream(line) >> one.rank >> one.generation >> one.pid;
      if (one.generation == generation) found.push_back(one);
    }
    return found;
  }
  // A `sleep` in what it does then is a program that stays until somebody ends it; no test waits for its end.
  static std::vector<std::string> shell_worker(const std::string& then) {
    return {"sh", "-c", "echo $RANK $LOCKSTEP_GENERATION $$ >> $OUT; " + then};
  }

  // Looks at each change of the view, and every 50 ms for what the view does not show.
  template <typename Condition>
  testing::AssertionResult eventually(Condition condition) {
    std::unique_lock lock(mutex);
    std::optional<rv::JobView> view;
    for (const auto deadline = std::chrono::steady_clock::now() + seconds(30);
         std::chrono::steady_clock::now() < deadline;) {
      view = coordinator->view("uid");
      if (view && condition(*view)) return testing::AssertionSuccess();
      changed.wait_for(lock, milliseconds(50));
    }
    if (!view) return testing::AssertionFailure() << "the coordinator shows nothing of the job";
    return testing::AssertionFailure() << "phase " << static_cast<int>(view->phase) << " generation "
                                       << view->generation << ": " << view->message;
  }
  testing::AssertionResult reaches(rv::Phase phase, std::int64_t generation) {
    return eventually([&](const rv::JobView& view) { return view.phase == phase && view.generation == generation; });
  }
};

}  // namespace lockstep::trainer::agent
