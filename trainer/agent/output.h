// What the processes print, on its way to the agent's own standard output and error: lines get the rank in front, and
// a reader that is slow slows the processes down instead of filling the agent's memory or stopping its heartbeats.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "trainer/agent/fd.h"

namespace lockstep::trainer::agent {

// Cuts a stream into lines of at most kMaxLine bytes and puts the tag in front of each.
class LineTagger {
 public:
  static constexpr std::size_t kMaxLine = 64 * 1024;

  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}
  // For the lines that are completed from now on.
  void retag(std::string tag) { tag_ = std::move(tag); }
  // Appends the lines that `bytes` completes to `out`; a rest without its newline waits.
  void feed(std::string_view bytes, std::string& out);
  // The stream has ended: the rest is a line.
  void finish(std::string& out);

 private:
  std::string tag_;
  std::string rest_;
};

// Writes to one descriptor from a thread of its own, which the destructor joins.
class Output {
 public:
  static constexpr std::size_t kRoom = 1024 * 1024;

  // `wake`: an eventfd that is written to when there is room again. Neither descriptor is closed.
  Output(int fd, int wake);
  // Waits at most two seconds for what is queued, then gives it up.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Whether more should be read from the processes now. Any thread.
  bool has_room() const;
  // Queues `text`; never blocks. The caller asks has_room() first and may overshoot by what it had in hand.
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
