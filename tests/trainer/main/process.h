// Trainers as processes, with their output in files, for tests of the whole program.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/unique_fd.h"

namespace lockstep::trainer::testing {

namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;

// On an idle machine everything here takes less than a second; a loaded one may be a hundred times slower.
inline constexpr std::chrono::seconds kPatience(100);

struct Ended {
  int code = -1;  // 128 + signal for a killed one
  std::string out, err;
};

inline std::string content(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Waits until `fd` is readable; false when `deadline` comes first.
inline bool readable(int fd, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd one{fd, POLLIN, 0};
    int ready = ::poll(&one, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

struct Limits {
  rlim_t most_file_bytes = RLIM_INFINITY;
  rlim_t descriptors = 0;          // the soft limit; 0: that of the test
  std::vector<int> keep_fds = {};  // these descriptors survive the exec
  const char* program = nullptr;   // null: trainer()
};

// The trainer under test: LOCKSTEP_TEST_BACKEND=late chooses the one on backend/late_backend.h.
inline const char* trainer() {
  const char* backend = std::getenv("LOCKSTEP_TEST_BACKEND");
  return backend != nullptr && std::string_view(backend) == "late" ? LOCKSTEP_TRAINER_LATE : LOCKSTEP_TRAINER;
}

// A running trainer; its output is in files. It does not outlive this object.
class Process {
 public:
  Process(const fs::path& folder, const std::string& name, std::vector<std::string> arguments,
          const Environment& environment = {}, Limits limits = {})
      : out_(folder / (name + ".out")), err_(folder / (name + ".err")) {
    arguments.insert(arguments.begin(), limits.program != nullptr ? limits.program : trainer());
    int out = ::open(out_.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    int err = ::open(err_.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    pid_ = ::fork();
    if (pid_ == 0) {
      for (const auto& [key, value] : environment) ::setenv(key.c_str(), value.c_str(), 1);
      if (limits.most_file_bytes != RLIM_INFINITY) {
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit limit{limits.most_file_bytes, limits.most_file_bytes};
        ::setrlimit(RLIMIT_FSIZE, &limit);
      }
      if (limits.descriptors > 0) {
        rlimit limit{};
        ::getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limits.descriptors;
        ::setrlimit(RLIMIT_NOFILE, &limit);
      }
      for (int fd : limits.keep_fds) ::fcntl(fd, F_SETFD, 0);
      ::dup2(out, 1);
      ::dup2(err, 2);
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(out);
    ::close(err);
  }
  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Its output so far.
  std::string err() const { return content(err_); }

  void signal(int number) const { ::kill(pid_, number); }
  pid_t pid() const { return pid_; }

  // Until its output contains `text`; false if it did not within the patience.
  bool says(const std::string& text) const {
    auto deadline = std::chrono::steady_clock::now() + kPatience;
    int watch = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    ::inotify_add_watch(watch, out_.c_str(), IN_MODIFY);
    bool said = false;
    do {
      char events[4096];
      while (::read(watch, events, sizeof events) > 0) continue;
      said = content(out_).find(text) != std::string::npos;
    } while (!said && readable(watch, deadline));
    ::close(watch);
    return said;
  }

  // Its end; kills it if it does not end within the patience.
  Ended wait() {
    auto deadline = std::chrono::steady_clock::now() + kPatience;
    int end = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    if (!readable(end, deadline)) {
      ADD_FAILURE() << "still running after " << kPatience.count() << " s";
      ::kill(pid_, SIGKILL);
    }
    ::close(end);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content(out_), content(err_)};
  }

 private:
  fs::path out_, err_;
  pid_t pid_ = -1;
};

// A socket with a port of the loopback interface that no other process has.
inline UniqueFd bound(int* port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

// The value of `key` in the result line.
inline std::string value_of(const std::string& out, const std::string& key) {
  size_t line = out.rfind("result {");
  size_t at = line == std::string::npos ? line : out.find("\"" + key + "\":", line);
  if (at == std::string::npos) return "no " + key;
  at += key.size() + 3;
  return out.substr(at, out.find_first_of(",}", at) - at);
}

// A folder of its own for each test, and no variables of ranks from the test's environment.
class InFolder : public ::testing::Test {
 protected:
  InFolder() : folder_(fs::temp_directory_path() / ("lockstep-trainer-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCKSTEP_PEERS", "LOCKSTEP_CHECKPOINT_DIR", "LOCKSTEP_RESTORE",
                             "LOCKSTEP_AGENT_FD", "LOCKSTEP_STATE_SOURCE", "LOCKSTEP_LEDGER"}) {
      ::unsetenv(name);
    }
  }
  ~InFolder() override { fs::remove_all(folder_); }

  Ended run(std::vector<std::string> arguments, const Environment& environment = {}, Limits limits = {}) {
    return Process(folder_, "run", std::move(arguments), environment, limits).wait();
  }
  // A text with something to learn.
  std::string text(const std::string& name = "text", int words = 2000) {
    std::ofstream file(folder_ / name);
    for (int i = 0; i < words; ++i) file << (i % 3 == 0 ? "gang " : i % 5 == 0 ? "rank\n" : "step ");
    return (folder_ / name).string();
  }

  fs::path folder_;
};

}  // namespace lockstep::trainer::testing
