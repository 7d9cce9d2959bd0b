#include "operator/local/process_handle.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "operator/base/number.h"

namespace lockstep::local {
namespace {

Error system_error(const std::string& what) {
  const ErrorCode code = errno == ESRCH                       ? ErrorCode::kNotFound
                         : errno == EPERM                     ? ErrorCode::kForbidden
                         : errno == EMFILE || errno == ENFILE ? ErrorCode::kExhausted
                                                              : ErrorCode::kUnavailable;
  return fail(code, what + ": " + strerror(errno));
}

// "127.0.0.1:4242" of one end of an internet socket; empty for other kinds, and for a socket without that end.
std::optional<std::string> address_of(int fd, int (*end)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (end(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return std::nullopt;
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(address->sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(address->sin6_port));
  }
  return std::nullopt;
}

struct Connection {
  int fd = -1;  // this process's descriptor of their socket
  std::string ends;
};

std::vector<int> descriptors_of(pid_t pid) {
  std::vector<int> list;
  std::error_code error;
  std::filesystem::directory_iterator it("/proc/" + std::to_string(pid) + "/fd", error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    std::error_code gone;
    if (!std::filesystem::read_symlink(it->path(), gone).string().starts_with("socket:")) continue;
    if (const auto fd = parse_number<int>(it->path().filename().string())) list.push_back(*fd);
  }
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace

Result<ProcessHandle> ProcessHandle::open(pid_t pid) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) return system_error("process " + std::to_string(pid) + " cannot be held");
  return ProcessHandle(pid, pidfd);
}

ProcessHandle::~ProcessHandle() {
  if (pidfd_ >= 0) close(pidfd_);
}

ProcessHandle::ProcessHandle(ProcessHandle&& other) noexcept
    : pid_(other.pid_), pidfd_(std::exchange(other.pidfd_, -1)) {}

ProcessHandle& ProcessHandle::operator=(ProcessHandle&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  return *this;
}

Status ProcessHandle::signal(int number) const {
  if (syscall(SYS_pidfd_send_signal, pidfd_, number, nullptr, 0) == 0) return {};
  return system_error("process " + std::to_string(pid_) + " cannot be signalled");
}

Result<std::string> ProcessHandle::cut_connection(std::size_t choice) const {
  std::vector<Connection> connections;
  std::optional<Error> why;
  for (const int theirs : descriptors_of(pid_)) {
    const int fd = static_cast<int>(syscall(SYS_pidfd_getfd, pidfd_, theirs, 0));
    if (fd < 0) {
      if (errno != EBADF) why = system_error("the sockets of process " + std::to_string(pid_) + " cannot be reached");
      continue;
    }
    const auto near = address_of(fd, getsockname), far = address_of(fd, getpeername);
    if (near && far) {
      connections.push_back({fd, *near + " to " + *far});
    } else {
      close(fd);
    }
  }
  Result<std::string> cut = fail(ErrorCode::kNotFound, "process " + std::to_string(pid_) + " has no connection now");
  if (!connections.empty()) {
    const Connection& chosen = connections[choice % connections.size()];
    cut = chosen.ends;
    if (shutdown(chosen.fd, SHUT_RDWR) != 0) cut = system_error("the connection " + chosen.ends + " cannot be ended");
  } else if (why) {
    cut = *why;
  }
  for (const Connection& one : connections) close(one.fd);
  return cut;
}

}  // namespace lockstep::local
