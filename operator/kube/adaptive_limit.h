// How many bulk requests may be in flight at once, derived from the server's answers. Pure: the owner brings the clock
// and the lock. There is no fixed rate: it uses an idle server, and spares a busy one.
//
// A round is as many answers as the limit allows requests. After each round (see docs/adr/0001-adaptive-limit.md):
//
//   accepted = max(tolerance * lowest latency, `quick`)
//   next = limit * clamp(accepted / mean latency of the round, 1/2, 1) + sqrt(limit) / 2
//
// The limit doubles each round instead until a round is slow or the server refuses. Small steps would take longer than
// a gang. It doubles again when no answer came for `forget_lowest`.
// The limit grows to `most` while the mean latency of a round is within `accepted`. Beyond that it shrinks to about
// `accepted` times the server's throughput. A refusal (429, 503) or a lost answer halves it, once per round. For
// `forget_refusal` it then stays below the number at which the server refused.
#pragma once

#include "operator/base/clock.h"

namespace lockstep::kube {

class AdaptiveLimit {
 public:
  struct Options {
    double first = 64, least = 4, most = 192;
    double tolerance = 3;                               // of the mean latency over the lowest, before the limit shrinks
    Duration quick = std::chrono::seconds(2);           // a lower mean latency is no reason to shrink
    Duration forget_lowest = std::chrono::seconds(10);  // the lowest latency is of this and the last such period, whole
                                                        // rounds each
    Duration forget_refusal = std::chrono::seconds(2);
  };
  enum class Answer {
    kServed,   // any answer about the object
    kRefused,  // asked to wait: 429 or 503
    kLost,     // none: time out or a broken connection
  };

  AdaptiveLimit() : AdaptiveLimit(Options()) {}
  explicit AdaptiveLimit(Options options) : options_(options), limit_(options.first) {}

  // A request ended. `inside`: how many were in flight with it; an unused limit does not grow. `retry_after`: with
  // kRefused, the pause that the server asked for; zero if none.
  void ended(MonotonicTime now, Duration latency, Answer answer, int inside, Duration retry_after = {});

  // Requests that may be in flight.
  int limit() const { return static_cast<int>(limit_); }
  // No request may begin before this time; the server asked for it.
  MonotonicTime closed_until() const { return closed_until_; }

 private:
  void end_round(MonotonicTime now);
  double lowest() const;

  Options options_;
  double limit_;
  bool starting_ = true;  // the limit doubles
  // The round in progress.
  int answers_ = 0;
  int served_ = 0;
  double seconds_ = 0;  // sum of the latencies of served requests
  bool used_ = false;   // at least half of the limit was in flight at once
  bool cut_ = false;    // the limit was halved in this round
  // Lowest latencies in seconds; 0: none so far.
  double lowest_now_ = 0, lowest_before_ = 0;
  MonotonicTime period_{};
  MonotonicTime last_answer_{};
  MonotonicTime closed_until_{};
  double ceiling_ = 0;  // the server refused nothing below it; 0: none
  MonotonicTime refused_{};
};

}  // namespace lockstep::kube
