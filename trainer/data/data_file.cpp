#include "trainer/data/data_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "operator/base/backoff.h"
#include "trainer/core/random.h"

namespace lockstep::trainer::data {

namespace {

ErrorCode code_of(int number) {
  switch (number) {
    case ENOENT:
      return ErrorCode::kNotFound;
    case EACCES:
      return ErrorCode::kForbidden;
    case EMFILE:
      return ErrorCode::kExhausted;
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:  // a socket
      return ErrorCode::kInvalid;
    default:
      return ErrorCode::kUnavailable;
  }
}

}  // namespace

std::uint64_t mix_in(std::uint64_t key, std::string_view path, const FileState& state) {
  key = core::derive(core::derive(key, path), state.size);
  return core::derive(key, static_cast<std::uint64_t>(state.modified));
}

Error cannot_read_data(const std::string& path, int number) {
  const ErrorCode code = code_of(number);
  return fail(code, fmt::format("cannot read data '{}': {}", path, std::strerror(number)));
}

Error cannot_read_data(const std::string& path, int number, std::uint64_t offset) {
  return {cannot_read_data(path, number).code,
          fmt::format("cannot read data '{}' at offset {}: {}", path, offset, std::strerror(number))};
}

Error was_written_to(const std::string& path) {
  return fail(
      ErrorCode::kInvalid,
      fmt::format("data '{}' was written to since it was opened; a run reads files that stay as they are", path));
}

namespace {

FileState state_of(const struct stat& status) {
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .modified = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

class MountedFile final : public DataFile {
 public:
  MountedFile(std::string path, int fd, const struct stat& opened)
      : path_(std::move(path)), fd_(fd), state_(state_of(opened)) {}
  ~MountedFile() override { ::close(fd_); }
  MountedFile(const MountedFile&) = delete;
  MountedFile& operator=(const MountedFile&) = delete;

  const std::string& path() const override { return path_; }
  FileState state() const override { return state_; }
  Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        const int number = errno;
        return cannot_read_data(path_, number, offset);
      }
      if (got == 0) {
        return fail(
            ErrorCode::kUnavailable,
            fmt::format("data '{}' ends at offset {}; it had {} bytes when it was opened", path_, offset, state_.size));
      }
      to = to.subspan(static_cast<size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
    return {};
  }
  Status unchanged() const override {
    struct stat now {};
    if (::fstat(fd_, &now) != 0) return cannot_read_data(path_, errno);
    if (state_of(now) == state_) return {};
    return was_written_to(path_);
  }

 private:
  const std::string path_;
  const int fd_;
  const FileState state_;
};

}  // namespace

Result<std::unique_ptr<DataFile>> open_data_file(const std::string& path) {
  // Without O_NONBLOCK a pipe would wait for its writer, and a device for its medium.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return cannot_read_data(path, errno);
  struct stat status {};
  const int failed = ::fstat(fd, &status) == 0 ? 0 : errno;
  std::unique_ptr<DataFile> file = std::make_unique<MountedFile>(path, fd, status);  // closes fd
  if (failed != 0) return cannot_read_data(path, failed);
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kInvalid, fmt::format("data '{}' is not a regular file", path));
  return file;
}

std::string PatientReader::Call::in_words() const {
  return offset ? fmt::format("{} data '{}' at offset {}", verb, *path, *offset)
                : fmt::format("{} data '{}'", verb, *path);
}

Status PatientReader::read(const DataFile& file, std::uint64_t offset, std::span<std::byte> to,
                           const std::atomic<bool>& abort) {
  return until_it_ends({.verb = "reading", .path = &file.path(), .offset = offset, .end = {}}, abort,
                       [&] { return file.read(offset, to); });
}

Status PatientReader::unchanged(const DataFile& file, const std::atomic<bool>& abort) {
  return attempt("checking", file.path(), abort, [&] { return file.unchanged(); });
}

Status PatientReader::attempt(const char* verb, const std::string& path, const std::atomic<bool>& abort,
                              const std::function<Status()>& work) {
  return until_it_ends({.verb = verb, .path = &path, .offset = {}, .end = {}}, abort, work);
}

Status PatientReader::until_it_ends(Call call, const std::atomic<bool>& abort, const std::function<Status()>& work) {
  struct Entry {
    Entry(PatientReader& of, const Call& what) : reader(of) {
      const std::lock_guard guard(reader.mutex_);
      at = reader.calls_.insert(reader.calls_.end(), what);
    }
    ~Entry() {
      const std::lock_guard guard(reader.mutex_);
      reader.calls_.erase(at);
    }
    PatientReader& reader;
    std::list<Call>::iterator at;
  };
  call.end = std::chrono::steady_clock::now() + patience_;
  const Entry entry(*this, call);
  Backoff backoff({.first = std::chrono::milliseconds(20), .most = std::chrono::seconds(2), .jitter = 0.5});
  while (true) {
    Status done = work();
    if (done || done.error().code != ErrorCode::kUnavailable) return done;
    const auto next = std::chrono::steady_clock::now() + backoff.next();
    if (next >= call.end) return done;
    std::unique_lock lock(mutex_);
    if (woken_.wait_until(lock, next, [&] { return abort.load(); })) {
      return fail(ErrorCode::kCancelled, fmt::format("{} data '{}' was aborted", call.verb, *call.path));
    }
  }
}

Status PatientReader::answers() const {
  const std::lock_guard guard(mutex_);
  if (calls_.empty() || std::chrono::steady_clock::now() < calls_.front().end) return {};
  return fail(ErrorCode::kDeadlineExceeded,
              fmt::format("{} has not ended for {:.0f} s; the storage does not answer", calls_.front().in_words(),
                          std::chrono::duration<double>(patience_).count()));
}

void PatientReader::wake() {
  { const std::lock_guard guard(mutex_); }
  woken_.notify_all();
}

}  // namespace lockstep::trainer::data
