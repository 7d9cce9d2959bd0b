#include "trainer/agent/output.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>

namespace lockstep::trainer::agent {

void LineTagger::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = kMaxLine - rest_.size();
    const std::size_t length = std::min(newline == std::string_view::npos ? bytes.size() : newline, room);
    rest_.append(bytes.substr(0, length));
    bytes.remove_prefix(length);
    const bool whole = !bytes.empty() && bytes.front() == '\n';
    if (whole) bytes.remove_prefix(1);
    if (!whole && rest_.size() < kMaxLine) return;
    out.append(tag_).append(rest_).push_back('\n');
    rest_.clear();
  }
}

void LineTagger::finish(std::string& out) {
  if (rest_.empty()) return;
  out.append(tag_).append(rest_).push_back('\n');
  rest_.clear();
}

Output::Output(int fd, int wake) : fd_(fd), wake_(wake), thread_([this] { run(); }) {}

Output::~Output() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Output::has_room() const {
  const std::lock_guard guard(mutex_);
  return queue_.size() < kRoom;
}

void Output::write(std::string_view text) {
  if (text.empty()) return;
  {
    const std::lock_guard guard(mutex_);
    queue_.append(text);
    if (queue_.size() >= kRoom) was_full_ = true;
  }
  changed_.notify_all();
}

void Output::run() {
  using Clock = std::chrono::steady_clock;
  auto give_up = Clock::time_point::max();
  std::string batch;
  std::size_t at = 0;  // written of batch
  while (true) {
    if (at == batch.size()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
      if (queue_.empty()) return;
      batch.clear();
      at = 0;
      batch.swap(queue_);
      if (std::exchange(was_full_, false)) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
      }
    }
    bool stopping = false;
    {
      const std::lock_guard guard(mutex_);
      stopping = stopping_;
    }
    if (stopping && give_up == Clock::time_point::max()) give_up = Clock::now() + std::chrono::seconds(2);
    if (Clock::now() >= give_up) return;
    // Polls first: a reader that has stopped must not block this thread.
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 200) <= 0) continue;
    const std::size_t most = std::min<std::size_t>(batch.size() - at, 4096);  // PIPE_BUF: will not block after POLLOUT
    const ssize_t written = ::write(fd_, batch.data() + at, most);
    if (written > 0) {
      at += static_cast<std::size_t>(written);
    } else if (written < 0 && errno != EINTR && errno != EAGAIN) {
      at = batch.size();  // the reader is gone: the processes continue without it
    }
  }
}

}  // namespace lockstep::trainer::agent
