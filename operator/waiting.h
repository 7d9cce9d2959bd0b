// What a process waits for before it can work, as one sentence: for /readyz, and for the log when it changes.
#pragma once

#include <mutex>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep {

// Thread-safe.
class Waiting {
 public:
  explicit Waiting(Clock& clock) : clock_(clock) {}

  // It waits because of `sentence`. Logs it if it is new, and once a minute.
  void because(const std::string& sentence);
  // It no longer waits; logged if it did.
  void over();
  // Success, or kUnavailable with the sentence.
  Status status() const;

 private:
  Clock& clock_;
  mutable std::mutex mutex_;
  std::string sentence_;       // protected by mutex_; empty: it does not wait
  MonotonicTime logged_at_{};  // protected by mutex_
};

}  // namespace lockstep
