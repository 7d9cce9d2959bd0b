#include "operator/local/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "operator/base/number.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

namespace lockstep::local {
namespace {

// The message of a child that cannot run the program.
struct Report {
  enum Stage : int { kMounts, kFolder, kExec } stage;
  int error;
  char what[256];
};

// Between fork (or vfork) and exec: system calls only.
[[noreturn]] void become(const ProcessSpec& spec, const MountPlan& mounts, char* const* argv, char* const* env,
                         pid_t parent, int null_fd, int output_fd, int report_fd) {
  Report report{};
  const auto give_up = [&](Report::Stage stage, const char* what) {
    report.error = errno;
    report.stage = stage;
    strncpy(report.what, what, sizeof report.what - 1);
    [[maybe_unused]] const ssize_t ignored = write(report_fd, &report, sizeof report);
    _exit(127);
  };
  setsid();
  dup2(null_fd, STDIN_FILENO);
  dup2(output_fd, STDOUT_FILENO);
  dup2(output_fd, STDERR_FILENO);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!mounts.empty()) {
    const char* what = "";
    if (mounts.enter(&what) != 0) give_up(Report::kMounts, what);
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  // After the user namespace, because its creation clears it.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) _exit(127);
  if (!spec.working_dir.empty() && chdir(spec.working_dir.c_str()) != 0) {
    give_up(Report::kFolder, spec.working_dir.c_str());
  }
  syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  execve(spec.program.c_str(), argv, env);
  give_up(Report::kExec, spec.program.c_str());
  _exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

Error explain(const Report& report) {
  const std::string why = strerror(report.error);
  const ErrorCode code = report.error == ENOENT   ? ErrorCode::kNotFound
                         : report.error == EACCES ? ErrorCode::kForbidden
                                                  : ErrorCode::kInternal;
  switch (report.stage) {
    case Report::kMounts:
      return fail(code, std::string("the volumes cannot be mounted (") + report.what + "): " + why);
    case Report::kFolder:
      return fail(code, std::string("the working folder ") + report.what + " cannot be entered: " + why);
    case Report::kExec:
      break;
  }
  return fail(code, std::string("the program ") + report.what + " cannot be started: " + why);
}

Error exhausted(const char* what) {
  return fail(ErrorCode::kExhausted, std::string("cannot make ") + what + ": " + strerror(errno));
}

// Field 4 of /proc/<pid>/stat; the name before it may hold anything, but ends with the last parenthesis.
pid_t parent_of(pid_t pid) {
  const int file = open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  std::array<char, 256> head{};  // the name has 15 bytes at most
  const ssize_t length = read(file, head.data(), head.size() - 1);
  close(file);
  const std::string_view line(head.data(), length > 0 ? static_cast<size_t>(length) : 0);
  const auto end = line.rfind(')');
  if (end == std::string_view::npos || line.size() < end + 5) return -1;
  return static_cast<pid_t>(atoi(line.data() + end + 4));
}

// Whether this process has any child, living or not yet reaped.
bool has_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

// A process that runs become(). Without mounts it borrows this process's memory until it runs its program. A copy of
// the page tables of a controller of some hundred pods takes longer than all the rest. A user namespace needs memory of
// its own.
pid_t start(const ProcessSpec& spec, const MountPlan& mounts, char* const* argv, char* const* env, int null_fd,
            int output_fd, int report_fd) {
  const pid_t parent = getpid();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // no signal handler runs in the borrowed memory
  const pid_t pid = mounts.empty() ? vfork() : fork();
  if (pid == 0) become(spec, mounts, argv, env, parent, null_fd, output_fd, report_fd);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

}  // namespace

Result<Process> start_process(const ProcessSpec& spec) {
  LOCKSTEP_TRY(const MountPlan mounts, MountPlan::make(spec.mounts, spec.scratch));
  const std::vector<char*> argv = pointers(spec.argv);
  const std::vector<char*> env = pointers(spec.environment);
  std::array<int, 2> output{-1, -1}, report{-1, -1};
  if (pipe2(output.data(), O_CLOEXEC) != 0) return exhausted("a pipe");
  if (pipe2(report.data(), O_CLOEXEC) != 0) {
    const Error error = exhausted("a pipe");
    for (const int fd : output) close(fd);
    return error;
  }
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t pid = start(spec, mounts, argv.data(), env.data(), null_fd, output[1], report[1]);
  const Error fork_error = exhausted("a process");
  close(null_fd);
  close(output[1]);
  close(report[1]);
  const auto undo = [&] {
    close(output[0]);
    close(report[0]);
  };
  if (pid < 0) {
    undo();
    return fork_error;
  }
  Report said{};
  ssize_t got = 0;
  while ((got = read(report[0], &said, sizeof said)) < 0 && errno == EINTR) {
  }
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (got > 0 || pidfd < 0) {
    const Error error = got > 0 ? explain(said) : exhausted("a pidfd");
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (pidfd >= 0) close(pidfd);
    undo();
    return error;
  }
  close(report[0]);
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  return Process{pid, pidfd, output[0]};
}

std::optional<ProcessEnd> reap(pid_t pid) {
  int status = 0;
  pid_t got = 0;
  while ((got = waitpid(pid, &status, WNOHANG)) < 0 && errno == EINTR) {
  }
  if (got != pid) return std::nullopt;
  if (WIFSIGNALED(status)) return ProcessEnd{128 + WTERMSIG(status), WTERMSIG(status)};
  return ProcessEnd{WEXITSTATUS(status), 0};
}

void adopt_orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  if (parent == getpid() && !has_children()) return children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto pid = parse_number<pid_t>(entry.path().filename().string());
    if (pid && parent_of(*pid) == parent) children.push_back(*pid);
  }
  return children;
}

int kill_children(const std::function<bool(pid_t)>& spare) {
  int killed = 0;
  while (true) {
    std::vector<pid_t> doomed;
    for (const pid_t child : children_of(getpid())) {
      if (!spare(child)) doomed.push_back(child);
    }
    if (doomed.empty()) return killed;
    for (const pid_t child : doomed) kill(child, SIGKILL);
    for (const pid_t child : doomed) {
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
      ++killed;
    }
  }
}

std::optional<std::string> environment_of(pid_t pid, std::string_view name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  std::string entry;
  while (std::getline(file, entry, '\0')) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return entry.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_program(const std::string& command, const std::vector<std::string>& folders) {
  const auto runnable = [](const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
  };
  if (command.find('/') != std::string::npos) {
    return runnable(command) ? std::optional(command) : std::nullopt;
  }
  for (const std::string& folder : folders) {
    if (runnable(folder + "/" + command)) return folder + "/" + command;
  }
  const char* path = getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (!folder.empty() && runnable(folder + "/" + command)) return folder + "/" + command;
  }
  return std::nullopt;
}

}  // namespace lockstep::local
