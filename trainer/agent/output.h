// The output of the processes, on its way to the agent's own standard output and error. Each line gets its rank as a
// prefix. A slow reader slows the processes down; it does not fill the agent's memory or stop its heartbeats.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "operator/base/unique_fd.h"

namespace lockstep::trainer::agent {

// Cuts a stream into lines of at most kMaxLine bytes and puts the tag in front of each.
class LineTagger {
 public:
  static constexpr std::size_t kMaxLine = 64 * 1024;

  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}
  // The tag of all lines that are completed later.
  void retag(std::string tag) { tag_ = std::move(tag); }
  // Appends the lines that `bytes` completes to `out`. A part without a newline is kept.
  void feed(std::string_view bytes, std::string& out);
  // The stream has ended: the kept part becomes a line.
  void finish(std::string& out);

 private:
  std::string tag_;
  std::string rest_;
};

// Writes to one descriptor from a thread of its own, which the destructor joins.
class Output {
 public:
  static constexpr std::size_t kRoom = 1024 * 1024;

  // `wake`: an eventfd that gets a write when there is room again. Neither descriptor is closed.
  Output(int fd, int wake);
  // Waits at most two seconds for the queued text, then drops it.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // True if the agent should read more from the processes. Any thread.
  bool has_room() const;
  // Queues `text`; never blocks. The caller checks has_room() first, and may exceed the room by one read.
  void write(std::string_view text);

 private:
  void run();

  const int fd_, wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string queue_;      // protected by mutex_
  bool was_full_ = false;  // protected by mutex_
  bool stopping_ = false;  // protected by mutex_
  std::thread thread_;
};

}  // namespace lockstep::trainer::agent
