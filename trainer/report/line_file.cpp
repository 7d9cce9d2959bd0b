#include "trainer/report/line_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace lockstep::trainer::report {

Result<std::unique_ptr<LineFile>> LineFile::open(std::string what, const std::string& path) {
  std::string name = fmt::format("{} {}", std::move(what), path);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    ErrorCode code = ErrorCode::kUnavailable;
    if (errno == EACCES || errno == EPERM || errno == EROFS) code = ErrorCode::kForbidden;
    if (errno == ENOENT || errno == ENOTDIR) code = ErrorCode::kNotFound;
    return fail(code, fmt::format("{} cannot be opened: {}", name, std::strerror(errno)));
  }
  return std::unique_ptr<LineFile>(new LineFile(fd, std::move(name)));
}

Result<std::unique_ptr<LineFile>> LineFile::begin(const std::string& what, const std::string& path, std::string line) {
  const std::string begun = path + ".new";
  LOCKSTEP_TRY(auto file, open(what, begun));
  file->name_ = fmt::format("{} {}", what, path);
  LOCKSTEP_CHECK_OK(file->write(std::move(line)));
  if (::rename(begun.c_str(), path.c_str()) != 0) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("{} {} cannot be renamed to {}: {}", what, begun, path, std::strerror(errno)));
  }
  return file;
}

LineFile::~LineFile() {
  ::close(fd_);
}

Status LineFile::write(std::string line) {
  line += '\n';
  ssize_t n = 0;
  do {
    n = ::write(fd_, line.data(), line.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(line.size())) return {};
  const int error = n < 0 ? errno : ENOSPC;  // a short write of a line means a full disk
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return fail(full ? ErrorCode::kExhausted : ErrorCode::kUnavailable,
              fmt::format("{} cannot be written: {}", name_, std::strerror(error)));
}

}  // namespace lockstep::trainer::report
