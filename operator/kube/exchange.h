// The hand-over of one HTTP exchange. The HTTP library's threads put headers, pieces of the body and the end into it,
// and the thread of the request takes them out. The library reads on while less than kAhead waits to be taken, and what
// was on its way then. That bounds memory and slows a fast server down. Pieces that wait are taken together: a busy
// stream wakes its reader rarely.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep::kube {

class Exchange {
 public:
  static constexpr std::size_t kAhead = std::size_t{64} << 10;

  // `whole`: the consumer wants the whole answer, and is not woken for its parts.
  explicit Exchange(bool whole) : whole_(whole) {}

  struct Head {
    int status = 0;
    double retry_after_seconds = 0.0;
  };
  enum class Event { kHead, kData, kEnd, kStopped, kDeadline };

  // Library side. True: more may come at once. False: the consumer has left. nullopt: `taken` is called, on any thread,
  // with true when there is room, or with false if the consumer leaves; a later call replaces it.
  std::optional<bool> offer(std::string_view piece, std::function<void(bool)> taken) {
    const std::lock_guard guard(mutex_);
    if (abandoned_ || finished_) return false;
    waiting_.append(piece);
    const bool full = waiting_.size() >= kAhead;
    if (full) taken_ = std::move(taken);
    if (full || !whole_) changed_.notify_all();
    return full ? std::nullopt : std::optional(true);
  }
  void set_head(Head head) {
    const std::lock_guard guard(mutex_);
    head_ = head;
    if (!whole_ || taken_) changed_.notify_all();
  }
  // The exchange is over; `failure` is empty if the server ended it properly.
  void finish(std::optional<Error> failure) {
    const std::lock_guard guard(mutex_);
    finished_ = true;
    failure_ = std::move(failure);
    changed_.notify_all();
  }

  // Consumer side. Waits for the next part: the head first, then data, then the end. kStopped as soon as `stop` is
  // requested, kDeadline at `deadline`.
  Event wait(std::stop_token stop, MonotonicTime deadline) {
    const std::stop_callback wake(stop, [this] {
      const std::lock_guard guard(mutex_);
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    while (true) {
      if (stop.stop_requested()) return Event::kStopped;
      if (head_ && !head_seen_) {
        head_seen_ = true;
        return Event::kHead;
      }
      if (head_seen_ && !waiting_.empty()) {
        std::swap(data_, waiting_);
        return Event::kData;
      }
      if (finished_) return Event::kEnd;
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
        const bool nothing = !(head_ && !head_seen_) && !(head_seen_ && !waiting_.empty()) && !finished_;
        if (nothing && !stop.stop_requested()) return Event::kDeadline;
      }
    }
  }
  // After kHead.
  Head head() const { return *head_; }
  // After kData: all pieces that had come; valid until take().
  const std::string& data() const { return data_; }
  // After kData: lets the library read on.
  void take() {
    data_.clear();
    if (auto taken = release()) taken(true);
  }
  // After kEnd.
  const std::optional<Error>& failure() const { return failure_; }

  // The consumer leaves: later pieces are refused.
  void abandon() {
    {
      const std::lock_guard guard(mutex_);
      abandoned_ = true;
    }
    if (auto taken = release()) taken(false);
  }
  // Waits until finish() was called; false if it was not by `deadline`.
  bool wait_finished(MonotonicTime deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [this] { return finished_; });
  }

 private:
  std::function<void(bool)> release() {
    const std::lock_guard guard(mutex_);
    return std::exchange(taken_, nullptr);
  }

  const bool whole_;
  std::string data_;  // the consumer's
  std::mutex mutex_;  // protects what follows
  std::condition_variable changed_;
  std::optional<Head> head_;
  bool head_seen_ = false;
  std::string waiting_;
  std::function<void(bool)> taken_;  // set: the library waits for room
  bool finished_ = false;
  bool abandoned_ = false;
  std::optional<Error> failure_;
};

}  // namespace lockstep::kube
