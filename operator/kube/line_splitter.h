// Cuts a stream of bytes into lines: a chunk of HTTP is neither a line nor an event.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::kube {

class LineSplitter {
 public:
  // etcd refuses objects above about 1.5 MiB, so a longer line is no event.
  static constexpr std::size_t kMaxLine = std::size_t{8} << 20;

  explicit LineSplitter(std::size_t max_line = kMaxLine) : max_line_(max_line) {}

  // Calls `on_line` for each whole line, without its end; the rest waits for the next call. A line that is too long is
  // dropped and counted, and reading continues behind it. False as soon as `on_line` returns false.
  template <typename OnLine>
  bool feed(std::string_view bytes, OnLine&& on_line) {
    std::size_t end = 0;
    while ((end = bytes.find('\n')) != bytes.npos) {
      const std::string_view part = bytes.substr(0, end);
      bytes.remove_prefix(end + 1);
      if (!skipping_ && partial_.size() + part.size() > max_line_) skip();
      if (skipping_) {
        skipping_ = false;
        continue;
      }
      if (partial_.empty()) {
        if (!on_line(part)) return false;
        continue;
      }
      partial_.append(part);
      const bool go_on = on_line(std::string_view(partial_));
      partial_.clear();
      if (!go_on) return false;
    }
    if (!skipping_ && partial_.size() + bytes.size() > max_line_) skip();
    if (!skipping_) partial_.append(bytes);
    return true;
  }

  // A last line that the stream ended without a newline; "" if there is none.
  const std::string& rest() const { return partial_; }
  // Lines that were dropped because they were too long.
  long dropped() const { return dropped_; }

 private:
  void skip() {
    skipping_ = true;
    ++dropped_;
    partial_.clear();
    partial_.shrink_to_fit();
  }

  const std::size_t max_line_;
  std::string partial_;
  bool skipping_ = false;
  long dropped_ = 0;
};

}  // namespace lockstep::kube
