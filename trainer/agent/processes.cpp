#include "trainer/agent/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>

#include "operator/api/cause.h"
#include "trainer/agent/environment.h"

namespace lockstep::trainer::agent {

using rendezvous::Go;
using rendezvous::ProcessEnd;

namespace {

// The prefix of each line of a rank.
std::string tag_of(int rank) {
  return fmt::format("[{}] ", rank);
}

}  // namespace

struct Processes::Worker {
  int rank = 0;
  pid_t pid = -1;  // -1 once reaped; it leads a process group of the same number until then
  UniqueFd out, err, link;
  LineTagger out_lines, err_lines;
  std::string link_line;  // the bytes after the last newline
  std::string to_tell;    // messages that the link had no room for
  std::string tail;       // the last bytes of its standard error

  explicit Worker(int number) : rank(number), out_lines(tag_of(number)), err_lines(tag_of(number)) {}
};

namespace {

constexpr std::size_t kAtOnce = 64 * 1024;      // bytes read from a stream in one turn of the loop
constexpr std::size_t kAtTheEnd = 1024 * 1024;  // most that is read after the end: above any pipe's default capacity
constexpr std::size_t kMostUntold = 4 * rendezvous::kMaxAgentLine;  // for a worker that does not read

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.compare(0, name.size() + 1, name + "=") == 0) return entry.substr(name.size() + 1);
  }
  return "";
}

// The path for execve(); empty if PATH has no such file, which fills `failed`.
std::string resolve(const std::string& command, const std::string& path, ProcessEnd& failed) {
  if (command.find('/') != std::string::npos) return command;
  std::string denied;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t colon = std::min(path.find(':', at), path.size());
    const std::string folder = path.substr(at, colon - at);
    const std::string file = (folder.empty() ? "." : folder) + "/" + command;
    if (::access(file.c_str(), X_OK) == 0) return file;
    if (errno == EACCES && denied.empty()) denied = file;
    at = colon + 1;
  }
  failed.problem = api::Cause::kCommandNotFound;
  failed.code = denied.empty() ? 127 : 126;
  failed.message = denied.empty() ? fmt::format("the command \"{}\" was not found in $PATH ({})", command, path)
                                  : fmt::format("{} may not be executed (no permission)", denied);
  return "";
}

// The letter of its state and its parent; '?' and -1 where there is no such process.
std::pair<char, pid_t> state_and_parent(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t close = stat.rfind(')');  // the name before it may hold anything
  if (close == std::string::npos || close + 4 >= stat.size()) return {'?', -1};
  return {stat[close + 2], std::atoi(stat.c_str() + close + 4)};
}

// Pids whose parent is this process. Orphans of the workers are adopted, so they show up here as well.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  siginfo_t info{};
  // Without a container's own /proc, the search reads the stat of every process of the machine.
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return found;
  DIR* const folder = ::opendir("/proc");
  if (folder == nullptr) return found;
  const pid_t self = ::getpid();
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    if (state_and_parent(entry->d_name).second == self) found.push_back(std::atoi(entry->d_name));
  }
  ::closedir(folder);
  return found;
}

void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// In the child, between fork and exec: only calls that are safe there.
struct Launch {
  const char* file;
  char* const* argv;
  char* const* shell_argv;  // for a script without #!, as execvp does it
  char* const* environment;
  int out, err, input, report;
  int keep[3];  // descriptors that the program inherits, or -1
  pid_t parent;
};

[[noreturn]] void launch(const Launch& l) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int error = 0;
  if (::getppid() != l.parent) ::_exit(127);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(number, &standard, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int fd : l.keep) {
    if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
  }
  if (::dup2(l.input, 0) >= 0 && ::dup2(l.out, 1) >= 0 && ::dup2(l.err, 2) >= 0) {
    ::execve(l.file, l.argv, l.environment);
    if (errno == ENOEXEC) ::execve("/bin/sh", l.shell_argv, l.environment);
  }
  error = errno;
  [[maybe_unused]] const ssize_t written = ::write(l.report, &error, sizeof error);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Processes::Processes(std::vector<std::string> command, std::vector<std::string> environment, std::string interface,
                     Output& out, Output& err, Events events)
    : command_(std::move(command)),
      environment_(std::move(environment)),
      interface_(std::move(interface)),
      out_(out),
      err_(err),
      events_(std::move(events)) {}

Processes::~Processes() = default;

void Processes::start(const Go& go, std::vector<int> only, std::vector<UniqueFd> listeners) {
  if (only.empty()) {
    for (int i = 0; i < go.ranks; ++i) only.push_back(i);
  }
  workers_.resize(static_cast<std::size_t>(go.ranks));
  for (const int i : only) {
    auto& worker = workers_[static_cast<std::size_t>(i)];
    if (worker) {  // the last output of an earlier generation
      read_stream(*worker, false, kAtTheEnd);
      read_stream(*worker, true, kAtTheEnd);
    }
    worker = std::make_unique<Worker>(go.first_rank + i);
  }
  std::size_t next = 0;
  for (const int i : only) {
    Worker& worker = *workers_[static_cast<std::size_t>(i)];
    const UniqueFd none;
    const std::size_t mine = next++;
    const bool own = go.kind == rendezvous::Kind::kLockstep && mine < listeners.size();
    ProcessEnd failed;
    failed.rank = worker.rank;
    if (spawn(worker, go, i, own ? listeners[mine] : none, failed)) {
      events_.on_started(worker.rank);
    } else {
      failed.end_ms = now_ms();
      events_.on_exit(failed);
    }
  }
}

bool Processes::spawn(Worker& worker, const Go& go, int local_rank, const UniqueFd& listener, ProcessEnd& failed) {
  int out[2], err[2], link[2], report[2];
  const auto out_of_descriptors = [&] {
    failed.problem = api::Cause::kProcessExit;
    failed.code = 126;
    failed.message = fmt::format("rank {} could not be started: {}", worker.rank, std::strerror(errno));
    return false;
  };
  if (::pipe2(out, O_CLOEXEC) != 0) return out_of_descriptors();
  worker.out = UniqueFd(out[0]);
  const UniqueFd out_there(out[1]);
  if (::pipe2(err, O_CLOEXEC) != 0) return out_of_descriptors();
  worker.err = UniqueFd(err[0]);
  const UniqueFd err_there(err[1]);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) != 0) return out_of_descriptors();
  worker.link = UniqueFd(link[0]);
  const UniqueFd link_there(link[1]);
  if (::pipe2(report, O_CLOEXEC) != 0) return out_of_descriptors();
  const UniqueFd report_here(report[0]);
  UniqueFd report_there(report[1]);
  const UniqueFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input) return out_of_descriptors();
  for (const UniqueFd* fd : {&worker.out, &worker.err, &worker.link}) set_nonblocking(fd->get());

  UniqueFd peers;
  if (const std::string text = peers_text(go); !text.empty()) {
    peers = UniqueFd(::memfd_create("lockstep-peers", MFD_CLOEXEC));
    if (!peers || ::write(peers.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return out_of_descriptors();
    }
  }
  std::vector<std::string> environment =
      worker_environment(environment_, go, local_rank, {listener.get(), link_there.get(), peers.get()}, interface_);
  const std::string file = resolve(command_.front(), variable(environment, "PATH"), failed);
  if (file.empty()) return false;
  std::vector<std::string> argv = command_;
  std::vector<std::string> shell_argv = {"sh", file};
  shell_argv.insert(shell_argv.end(), command_.begin() + 1, command_.end());
  const std::vector<char*> argv_pointers = pointers(argv);
  const std::vector<char*> shell_pointers = pointers(shell_argv);
  const std::vector<char*> environment_pointers = pointers(environment);
  const Launch plan{.file = file.c_str(),
                    .argv = argv_pointers.data(),
                    .shell_argv = shell_pointers.data(),
                    .environment = environment_pointers.data(),
                    .out = out_there.get(),
                    .err = err_there.get(),
                    .input = input.get(),
                    .report = report_there.get(),
                    .keep = {listener.get(), link_there.get(), peers.get()},
                    .parent = ::getpid()};
  const pid_t pid = ::fork();
  if (pid < 0) return out_of_descriptors();
  if (pid == 0) launch(plan);
  ::setpgid(pid, pid);  // parent and child both call it: either may be first
  report_there.reset();
  int error = 0;
  ssize_t length = 0;
  do {
    length = ::read(report_here.get(), &error, sizeof error);
  } while (length < 0 && errno == EINTR);
  if (length != static_cast<ssize_t>(sizeof error)) {
    worker.pid = pid;
    return true;
  }
  ::waitpid(pid, nullptr, 0);
  failed.problem = api::Cause::kCommandNotFound;
  failed.code = error == ENOENT ? 127 : 126;
  failed.message = fmt::format("the command \"{}\" could not be executed: {}", command_.front(), std::strerror(error));
  return false;
}

void Processes::signal(int signal, bool ask) {
  for (const auto& worker : workers_) {
    if (ask) tell(*worker, {});
    if (worker->pid > 0) ::kill(-worker->pid, signal);
  }
}

void Processes::regroup(const rendezvous::GenerationId& id) {
  rendezvous::AgentMessage message;
  message.kind = rendezvous::AgentMessage::Kind::kRegroup;
  message.regroup = {id.term, id.generation};
  for (const auto& worker : workers_) tell(*worker, message);
}

void Processes::yield(std::int64_t generation) {
  rendezvous::AgentMessage message;
  message.kind = rendezvous::AgentMessage::Kind::kYield;
  message.yields = generation;
  for (const auto& worker : workers_) tell(*worker, message);
}

void Processes::renumber(int first_rank) {
  for (const auto& worker : workers_) {
    worker->rank = first_rank++;
    worker->out_lines.retag(tag_of(worker->rank));
    worker->err_lines.retag(tag_of(worker->rank));
  }
}

void Processes::join(const Go& go) {
  rendezvous::AgentMessage message;
  message.kind = rendezvous::AgentMessage::Kind::kJoin;
  rendezvous::Join& join = message.join;
  join.term = go.id.term;
  join.generation = go.id.generation;
  join.world_size = go.world_size;
  if (go.peers) {
    join.peers = go.peers->addresses();
    join.member_of_rank = go.peers->slots();
  }
  join.key = go.key;
  join.source = go.source;
  join.restore = go.restore;
  for (const auto& worker : workers_) {
    message.join.rank = worker->rank;
    tell(*worker, message);
  }
}

// A worker that does not read loses its messages. Its agent ends it by the deadline of the message.
void Processes::tell(Worker& worker, const rendezvous::AgentMessage& message) {
  const std::string line = rendezvous::encode(message);
  if (!worker.link || worker.to_tell.size() + line.size() > kMostUntold) return;
  worker.to_tell += line;
  write_link(worker);
}

void Processes::write_link(Worker& worker) {
  while (worker.link && !worker.to_tell.empty()) {
    const ssize_t n =
        ::send(worker.link.get(), worker.to_tell.data(), worker.to_tell.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) return worker.to_tell.clear();  // its end is seen when the link is read
    worker.to_tell.erase(0, static_cast<std::size_t>(n));
  }
}

void Processes::signal(int rank, int signal) {
  for (const auto& worker : workers_) {
    if (worker->rank == rank && worker->pid > 0) ::kill(-worker->pid, signal);
  }
}

void Processes::abort(int rank) {
  signal(rank, SIGABRT);
  signal(rank, SIGCONT);
}

void Processes::kill(int rank) {
  signal(rank, SIGKILL);
}

std::vector<std::pair<int, char>> Processes::states() const {
  std::vector<std::pair<int, char>> found;
  for (const auto& worker : workers_) {
    if (worker->pid > 0) found.emplace_back(worker->rank, state_and_parent(std::to_string(worker->pid)).first);
  }
  return found;
}

void Processes::kill() {
  for (const auto& worker : workers_) {
    if (worker->pid > 0) ::kill(-worker->pid, SIGKILL);
  }
  // Only the agent reaps them, so the kernel has not given these numbers to other processes.
  for (const pid_t child : children()) ::kill(child, SIGKILL);
}

bool Processes::reap() {
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid == 0) return false;
    if (pid < 0) return errno == ECHILD;
    for (const auto& worker : workers_) {
      if (worker->pid == pid) finish(*worker, status);
    }
  }
}

void Processes::finish(Worker& worker, int status) {
  ProcessEnd end;
  end.end_ms = now_ms();
  end.rank = worker.rank;
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    end.code = 128 + end.signal;
  } else {
    end.code = WEXITSTATUS(status);
  }
  worker.pid = -1;
  read_link(worker);
  read_stream(worker, false, kAtTheEnd);
  read_stream(worker, true, kAtTheEnd);
  end.stderr_tail = worker.tail;
  end.left_behind = workers_.size() > 1 && others_than_workers();
  events_.on_exit(end);
}

// True if the agent has a child that is no worker: an orphan that a worker left behind.
bool Processes::others_than_workers() const {
  const std::vector<pid_t> all = children();
  return std::any_of(all.begin(), all.end(), [this](pid_t child) {
    return std::none_of(workers_.begin(), workers_.end(), [child](const auto& worker) { return worker->pid == child; });
  });
}

void Processes::read_stream(Worker& worker, bool is_err, std::size_t most) {
  UniqueFd& fd = is_err ? worker.err : worker.out;
  LineTagger& lines = is_err ? worker.err_lines : worker.out_lines;
  char buffer[16 * 1024];
  std::string tagged;
  for (std::size_t total = 0; fd && total < most;) {
    const ssize_t length = ::read(fd.get(), buffer, sizeof buffer);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) break;
    if (length <= 0) {
      lines.finish(tagged);
      fd.reset();
      break;
    }
    const std::string_view bytes(buffer, static_cast<std::size_t>(length));
    total += bytes.size();
    lines.feed(bytes, tagged);
    if (is_err) {
      worker.tail.append(bytes);
      if (worker.tail.size() > rendezvous::kMaxStderrTail) {
        worker.tail.erase(0, worker.tail.size() - rendezvous::kMaxStderrTail);
      }
    }
  }
  (is_err ? err_ : out_).write(tagged);
}

void Processes::read_link(Worker& worker) {
  char buffer[16 * 1024];
  for (std::size_t total = 0; worker.link && total < kAtTheEnd;) {
    const ssize_t length = ::recv(worker.link.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) return;
    if (length <= 0) return worker.link.reset();
    total += static_cast<std::size_t>(length);
    worker.link_line.append(buffer, static_cast<std::size_t>(length));
    for (std::size_t end; (end = worker.link_line.find('\n')) != std::string::npos;) {
      const auto message = rendezvous::decode_worker_message(std::string_view(worker.link_line).substr(0, end));
      if (!message) {
        err_.write(
            fmt::format("lockstep-agent: the link of rank {} is closed: {}\n", worker.rank, message.error().message));
        return worker.link.reset();
      }
      worker.link_line.erase(0, end + 1);
      events_.on_worker_message(worker.rank, *message);
    }
    if (worker.link_line.size() > rendezvous::kMaxLinkLine) {
      err_.write(fmt::format("lockstep-agent: the link of rank {} is closed: a line is over {} bytes\n", worker.rank,
                             rendezvous::kMaxLinkLine));
      return worker.link.reset();
    }
  }
}

void Processes::add_polls(std::vector<pollfd>& polls) const {
  const bool out_room = out_.has_room(), err_room = err_.has_room();
  for (const auto& worker : workers_) {
    // Without room the pipe fills, and the process blocks in write().
    polls.push_back({out_room ? worker->out.get() : -1, POLLIN, 0});
    polls.push_back({err_room ? worker->err.get() : -1, POLLIN, 0});
    polls.push_back({worker->link.get(), static_cast<short>(worker->to_tell.empty() ? POLLIN : POLLIN | POLLOUT), 0});
  }
}

void Processes::handle(const std::vector<pollfd>& polls, std::size_t first) {
  for (std::size_t i = 0; i < workers_.size() && first + 3 * i + 2 < polls.size(); ++i) {
    Worker& worker = *workers_[i];
    if (polls[first + 3 * i].revents != 0) read_stream(worker, false, kAtOnce);
    if (polls[first + 3 * i + 1].revents != 0) read_stream(worker, true, kAtOnce);
    if (polls[first + 3 * i + 2].revents != 0) write_link(worker), read_link(worker);
  }
}

}  // namespace lockstep::trainer::agent
