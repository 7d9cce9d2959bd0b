// How long a member may be silent before it counts as lost: an accrual failure detector (phi; Hayashibara, Defago,
// Yared, Katayama: "The phi accrual failure detector", SRDS 2004) over the member's own inter-arrival times. Pure; the
// coordinator's machine keeps one for each member, and asks only while no step advances.
//
// phi(t) = -log10(P(a heartbeat comes later than t)), with gaps taken as normal. A member is suspected from phi = 8 on:
// one wrong suspicion in 10^8 heartbeats if the model held. It does not hold on a busy machine, whose gaps have a long
// tail. So the longest recent gap counts as well, and the answer has bounds.
#pragma once

#include <array>
#include <cstdint>

#include "operator/base/clock.h"

namespace lockstep::rendezvous {

struct SilenceBounds {
  Duration least = std::chrono::milliseconds(900);
  Duration most = std::chrono::seconds(3);  // also until enough heartbeats have come
};

// Of the heartbeats of one connection. Its size does not grow.
class ArrivalTimes {
 public:
  // A heartbeat came. The first one, and one after more than `longest`, begin a gap and end none.
  void note(MonotonicTime now, Duration longest);
  // How long the member may be silent. It was told to say a heartbeat `every` so often; both bounds are at least three
  // times that.
  Duration silence(Duration every, const SilenceBounds& bounds) const;
  // How suspect a silence of that length is. 0 while too few heartbeats have come.
  double phi(Duration silent, Duration every) const;
  // Gaps that count.
  std::int64_t gaps() const { return gaps_; }

  // Before anything is concluded from them: 30 s, so that what is late now and then has been late.
  static constexpr std::int64_t kLeastGaps = 120;
  static constexpr int kWindow = 256;          // gaps that have weight in the mean
  static constexpr int kLongestOf = 10 * 240;  // gaps among which the longest is kept twice: 10 minutes

 private:
  double deviation(Duration every) const;  // milliseconds

  MonotonicTime last_{};
  double mean_ = 0, variance_ = 0;  // milliseconds; of about the last kWindow gaps
  std::int64_t gaps_ = 0;
  std::array<Duration, 2> longest_{};  // of the kLongestOf gaps that fill up, and of those before
};

}  // namespace lockstep::rendezvous
