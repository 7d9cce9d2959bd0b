// Cuts a stream of bytes into frames: a length of four bytes, most significant first, and so many bytes. A watch in
// protobuf comes so.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "operator/kube/line_splitter.h"

namespace lockstep::kube {

class FrameSplitter {
 public:
  explicit FrameSplitter(std::size_t max_frame = LineSplitter::kMaxLine) : max_frame_(max_frame) {}

  // Calls `on_frame` for each whole frame, without its length; the rest waits for the next call. A frame that is too
  // long is dropped and counted, and reading continues behind it. False as soon as `on_frame` returns false.
  template <typename OnFrame>
  bool feed(std::string_view bytes, OnFrame&& on_frame) {
    while (!bytes.empty()) {
      if (head_size_ < head_.size()) {
        read_head(bytes);
        continue;
      }
      const std::string_view part = bytes.substr(0, missing_);
      bytes.remove_prefix(part.size());
      missing_ -= part.size();
      const bool whole = missing_ == 0 && partial_.empty();
      if (!skipping_ && !whole) partial_.append(part);
      if (missing_ > 0) return true;
      head_size_ = 0;
      if (skipping_) continue;
      const bool go_on = on_frame(whole ? part : std::string_view(partial_));
      partial_.clear();
      if (!go_on) return false;
    }
    return true;
  }

  // Frames that were dropped because they were too long.
  long dropped() const { return dropped_; }

 private:
  void read_head(std::string_view& bytes) {
    while (head_size_ < head_.size() && !bytes.empty()) {
      head_[head_size_++] = static_cast<std::uint8_t>(bytes.front());
      bytes.remove_prefix(1);
    }
    if (head_size_ < head_.size()) return;
    missing_ = 0;
    for (const std::uint8_t byte : head_) missing_ = missing_ << 8U | byte;
    skipping_ = missing_ > max_frame_;
    if (skipping_) ++dropped_;
    if (missing_ == 0) head_size_ = 0;  // an empty frame holds no event
  }

  const std::size_t max_frame_;
  std::array<std::uint8_t, 4> head_{};  // the length
  std::size_t head_size_ = 0;           // how much of it is there
  std::size_t missing_ = 0;             // bytes of the frame that have not come
  bool skipping_ = false;
  std::string partial_;
  long dropped_ = 0;
};

}  // namespace lockstep::kube
