#include "operator/rendezvous/hang_watch.h"

#include <algorithm>
#include <vector>

namespace lockstep::rendezvous {
namespace {

constexpr std::size_t kWindow = 128;
constexpr int kFactor = 5;

// Where it waits may change back and forth without anything getting done.
bool got_on(const Activity& before, const Activity& now) {
  return before.generation != now.generation || before.step != now.step || before.beats != now.beats ||
         before.sequence != now.sequence || before.sent != now.sent || before.received != now.received;
}

}  // namespace

void HangWatch::note(int rank, const RankActivity& activity, MonotonicTime now) {
  const auto at = static_cast<std::size_t>(rank);
  if (at >= ranks_.size()) ranks_.resize(at + 1);
  const bool first = !ranks_[at];
  if (first) ranks_[at] = Seen{activity, now};
  Seen& seen = *ranks_[at];
  if (activity.said && (first || !seen.activity.said || got_on(*seen.activity.said, *activity.said))) {
    seen.moved = moved_ = now;
  }
  seen.activity = activity;
  if (activity.said) note_step(activity.said->step, now);
}

void HangWatch::note_step(std::int64_t committed, MonotonicTime now) {
  if (step_ && committed <= *step_) return;
  if (stepped_) {
    steps_.push_back((now - step_at_) / (committed - *step_));
    if (steps_.size() > kWindow) steps_.pop_front();
  }
  stepped_ = step_.has_value() || committed > 0;
  step_ = committed;
  step_at_ = moved_ = now;
}

void HangWatch::restart(MonotonicTime now) {
  moved_ = now;
  for (auto& seen : ranks_) {
    if (seen) seen->moved = now;
  }
}

Duration HangWatch::patience(Duration least) const {
  if (steps_.empty()) return least;
  std::vector<Duration> sorted(steps_.begin(), steps_.end());
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() * 99 - 1) / 100);
  std::nth_element(sorted.begin(), at, sorted.end());
  return std::max(least, kFactor * *at);
}

}  // namespace lockstep::rendezvous
