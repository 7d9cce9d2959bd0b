// The log of a pod is a file. Its last bytes are in memory, for the message of a failed container. Readers follow it
// while it grows.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/base/result.h"

namespace lockstep::local {

// Thread-safe. One writer, any number of readers.
class PodLog {
 public:
  // Opens `path` for appending. A log that cannot be written (a full disk) loses lines and blocks no writer.
  explicit PodLog(std::string path);
  ~PodLog();
  PodLog(const PodLog&) = delete;
  PodLog& operator=(const PodLog&) = delete;

  void append(std::string_view data);
  // The log is complete: followers end.
  void finish();
  // The last bytes, at most 2 KiB, from the start of a line.
  std::string tail() const;
  const std::string& path() const { return path_; }

  // Everything, or the last `lines`; then, with `follow`, new output until finish(), `stop`, or `on_data` returns
  // false.
  Status read(std::optional<int> lines, bool follow, const std::function<bool(std::string_view)>& on_data,
              std::stop_token stop) const;

 private:
  const std::string path_;
  mutable std::mutex mutex_;
  mutable std::condition_variable_any grown_;
  int fd_ = -1;  // these protected by mutex_
  std::string last_;
  std::uint64_t size_ = 0;  // of the file
  bool finished_ = false;
};

}  // namespace lockstep::local
