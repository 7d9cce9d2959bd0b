// Stands in front of the C library (LD_PRELOAD): storage that does not answer. A call on a path that contains
// LOCKSTEP_HANGS waits as long as the pipe LOCKSTEP_HANGS_WHILE exists; StorageGate (storage_test.cpp) opens it.
// LOCKSTEP_KILLS=PART:N ends the process by SIGKILL before the Nth time (from 1) that it renames a file to a path that
// contains PART.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

void wait_for_storage(const char* path) {
  const char* hangs = std::getenv("LOCKSTEP_HANGS");
  const char* gate = std::getenv("LOCKSTEP_HANGS_WHILE");
  if (hangs == nullptr || gate == nullptr || std::strstr(path, hangs) == nullptr) return;
  while (::syscall(SYS_access, gate, F_OK) == 0) {
    const int fd = ::open(gate, O_RDONLY | O_CLOEXEC);  // until the gate is opened for writing
    if (fd >= 0) ::close(fd);
  }
}

void wait_for_storage(int fd) {
  char link[32], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(link, path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = 0;
  wait_for_storage(path);
}

bool dies_before(const char* path) {
  const std::string_view kills = std::getenv("LOCKSTEP_KILLS") == nullptr ? "" : std::getenv("LOCKSTEP_KILLS");
  const size_t colon = kills.find(':');
  if (colon == kills.npos || std::string_view(path).find(kills.substr(0, colon)) == std::string_view::npos)
    return false;
  static std::atomic<long> left{std::atol(kills.data() + colon + 1)};
  return left > 0 && --left == 0;
}

}  // namespace

extern "C" {

int access(const char* path, int mode) {
  wait_for_storage(path);
  return next<int (*)(const char*, int)>("access")(path, mode);
}

int rename(const char* from, const char* to) {
  if (dies_before(to)) {
    std::fprintf(stderr, "hanging_storage: killed before %s exists\n", to);
    ::kill(::getpid(), SIGKILL);
  }
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

int mkdir(const char* path, mode_t mode) {
  wait_for_storage(path);
  return next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  wait_for_storage(fd);
  return next<ssize_t (*)(int, void*, size_t, off_t)>("pread")(fd, to, bytes, offset);
}

ssize_t pread64(int fd, void* to, size_t bytes, off64_t offset) {
  wait_for_storage(fd);
  return next<ssize_t (*)(int, void*, size_t, off64_t)>("pread64")(fd, to, bytes, offset);
}
}
