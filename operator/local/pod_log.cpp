#include "operator/local/pod_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lockstep::local {
namespace {

constexpr size_t kTail = 2048;

// The offset of the last `lines` lines of the first `size` bytes.
std::uint64_t start_of_last(int fd, std::uint64_t size, int lines) {
  std::string block(64 * 1024, '\0');
  std::uint64_t at = size;
  int seen = 0;
  while (at > 0) {
    const size_t want = static_cast<size_t>(std::min<std::uint64_t>(block.size(), at));
    const ssize_t got = pread(fd, block.data(), want, static_cast<off_t>(at - want));
    if (got != static_cast<ssize_t>(want)) return at;
    for (size_t i = want; i-- > 0;) {
      const std::uint64_t position = at - want + i;
      if (block[i] == '\n' && position + 1 != size && ++seen == lines) return position + 1;
    }
    at -= want;
  }
  return 0;
}

}  // namespace

PodLog::PodLog(std::string path) : path_(std::move(path)) {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  struct stat info {};
  if (fd_ >= 0 && fstat(fd_, &info) == 0) size_ = static_cast<std::uint64_t>(info.st_size);
}

PodLog::~PodLog() {
  if (fd_ >= 0) close(fd_);
}

void PodLog::append(std::string_view data) {
  const std::lock_guard guard(mutex_);
  last_.append(data.substr(data.size() > kTail ? data.size() - kTail : 0));
  if (last_.size() > kTail) last_.erase(0, last_.size() - kTail);
  while (fd_ >= 0 && !data.empty()) {
    const ssize_t written = write(fd_, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;  // a full disk must not stop the training; later lines may fit again
    size_ += static_cast<std::uint64_t>(written);
    data.remove_prefix(static_cast<size_t>(written));
  }
  grown_.notify_all();
}

void PodLog::finish() {
  const std::lock_guard guard(mutex_);
  finished_ = true;
  grown_.notify_all();
}

std::string PodLog::tail() const {
  const std::lock_guard guard(mutex_);
  if (last_.size() < kTail) return last_;
  const auto line = last_.find('\n');
  return line == std::string::npos ? last_ : last_.substr(line + 1);
}

Status PodLog::read(std::optional<int> lines, bool follow, const std::function<bool(std::string_view)>& on_data,
                    std::stop_token stop) const {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(ErrorCode::kNotFound, "cannot open the log " + path_ + ": " + strerror(errno));
  std::unique_lock lock(mutex_);
  std::uint64_t at = 0;
  if (lines) at = *lines <= 0 ? size_ : start_of_last(fd, size_, *lines);
  std::string block(64 * 1024, '\0');
  Status result;
  while (true) {
    if (at >= size_) {
      if (!follow || finished_) break;
      if (!grown_.wait(lock, stop, [&] { return size_ > at || finished_; })) {
        result = fail(ErrorCode::kCancelled, "reading of the log was stopped");
        break;
      }
      continue;
    }
    lock.unlock();
    const ssize_t got = pread(fd, block.data(), block.size(), static_cast<off_t>(at));
    const bool more = got > 0 && on_data(std::string_view(block.data(), static_cast<size_t>(got)));
    lock.lock();
    if (!more) break;
    at += static_cast<std::uint64_t>(got);
  }
  lock.unlock();
  close(fd);
  return result;
}

}  // namespace lockstep::local
