#include "trainer/agent/install.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "operator/base/unique_fd.h"

namespace lockstep::trainer::agent {
namespace {

Status copy(int from, int to) {
  char buffer[64 * 1024];
  while (true) {
    const ssize_t length = ::read(from, buffer, sizeof buffer);
    if (length == 0) return {};
    if (length < 0) return fail(ErrorCode::kInternal, std::strerror(errno));
    for (ssize_t done = 0; done < length;) {
      const ssize_t written = ::write(to, buffer + done, static_cast<std::size_t>(length - done));
      if (written < 0) return fail(ErrorCode::kExhausted, std::strerror(errno));
      done += written;
    }
  }
}

}  // namespace

Status install(const std::string& path) {
  const UniqueFd from(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!from) return fail(ErrorCode::kInternal, fmt::format("this program cannot be read: {}", std::strerror(errno)));
  const std::string partial = fmt::format("{}.{}.partial", path, ::getpid());
  UniqueFd to(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755));
  if (!to) return fail(ErrorCode::kInternal, fmt::format("{} cannot be written: {}", partial, std::strerror(errno)));
  Status copied = copy(from.get(), to.get());
  if (copied && (::fchmod(to.get(), 0755) != 0 || ::fsync(to.get()) != 0)) {
    copied = fail(ErrorCode::kExhausted, std::strerror(errno));
  }
  to.reset();  // a file that is open for writing cannot be executed
  if (copied && ::rename(partial.c_str(), path.c_str()) != 0) copied = fail(ErrorCode::kInternal, std::strerror(errno));
  if (!copied) {
    ::unlink(partial.c_str());
    return copied.error().in(fmt::format("{} cannot be written", path));
  }
  return {};
}

}  // namespace lockstep::trainer::agent
