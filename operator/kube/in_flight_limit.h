// How many requests may be under way at once, learnt from the server: a little more while answers are quick, half as
// many when it says 429 or grows slow. There is no fixed rate: an idle server is used, a busy one is spared.
#pragma once

#include <condition_variable>
#include <mutex>

#include "operator/base/clock.h"

namespace lockstep::kube {

class InFlightLimit {
 public:
  struct Options {
    double first = 16, most = 64;
    Duration slow = std::chrono::seconds(1);  // an answer that takes longer counts as congestion
  };
  explicit InFlightLimit(Clock& clock) : InFlightLimit(clock, Options()) {}
  InFlightLimit(Clock& clock, Options options) : clock_(clock), options_(options), limit_(options.first) {}

  // Waits for a place until `deadline`; false when there was none. Every true is followed by one leave().
  bool enter(MonotonicTime deadline);
  // The request is over. `retry_after`: zero unless the server asked to wait, then nobody enters for that long.
  void leave(Duration latency, bool refused, Duration retry_after);

  // Places there are now.
  int limit() const;

 private:
  Clock& clock_;
  const Options options_;
  mutable std::mutex mutex_;  // protects what follows
  std::condition_variable changed_;
  double limit_;
  int inside_ = 0;
  MonotonicTime closed_until_{};
  MonotonicTime last_cut_{};  // one congestion is answered once, however many requests saw it
};

}  // namespace lockstep::kube
