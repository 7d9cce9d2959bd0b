// Whether the ranks of a generation make progress: what each was last seen doing, since when, and how long steps take.
// Pure; the coordinator's state machine feeds it.
//
// Any change of what any rank has done counts, not steps alone. A long evaluation or a slow checkpoint is no hang,
// because batches and bytes pass. Ranks need one another for every step, so one that is stuck soon stops all of them;
// while one makes progress, none is stuck for good.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/activity.h"

namespace lockstep::rendezvous {

class HangWatch {
 public:
  struct Seen {
    RankActivity activity;
    MonotonicTime moved{};  // when what it says last changed
  };

  // Of a generation that is up now and began with `committed` steps; empty: it is not known with how many.
  HangWatch(std::optional<std::int64_t> committed, MonotonicTime now) : step_(committed), step_at_(now), moved_(now) {}

  // `rank` is one of the generation's.
  void note(int rank, const RankActivity& activity, MonotonicTime now);
  void note_step(std::int64_t committed, MonotonicTime now);
  // Nobody could see anything until now: what did not change meanwhile proves nothing.
  void restart(MonotonicTime now);

  // When any rank last made progress.
  MonotonicTime moved() const { return moved_; }
  // A step of this generation was committed, or any at all where it is not known with how many it began.
  bool stepped() const { return stepped_; }
  // A second one, so that it is known how long one takes.
  bool timed() const { return !steps_.empty(); }
  // How long no rank makes progress until it is a hang. It is five times the 99th percentile of the last 128 step
  // times, and at least `least`. The first step is left out, because it has much to prepare.
  Duration patience(Duration least) const;
  const std::vector<std::optional<Seen>>& ranks() const { return ranks_; }  // by rank, those that were noted

 private:
  std::vector<std::optional<Seen>> ranks_;
  std::optional<std::int64_t> step_;  // the newest committed
  MonotonicTime step_at_, moved_;
  bool stepped_ = false;
  std::deque<Duration> steps_;
};

}  // namespace lockstep::rendezvous
