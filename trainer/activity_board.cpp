#include "trainer/activity_board.h"

#include <algorithm>
#include <chrono>

namespace lockstep::trainer {
namespace {

using rendezvous::Activity;

Activity::Doing told(core::Doing doing) {
  switch (doing) {
    case core::Doing::kStarting:
      return Activity::Doing::kStarting;
    case core::Doing::kLoading:
      return Activity::Doing::kLoading;
    case core::Doing::kForward:
      return Activity::Doing::kForward;
    case core::Doing::kBackward:
      return Activity::Doing::kBackward;
    case core::Doing::kWaiting:
      return Activity::Doing::kWaiting;
    case core::Doing::kCommitting:
      return Activity::Doing::kCommitting;
    case core::Doing::kSaving:
      return Activity::Doing::kSaving;
    case core::Doing::kRegrouping:
      return Activity::Doing::kRegrouping;
    case core::Doing::kOther:
      break;
  }
  return Activity::Doing::kOther;
}

Activity::Stage told(comm::Stage stage) {
  switch (stage) {
    case comm::Stage::kReduceScatter:
      return Activity::Stage::kReduceScatter;
    case comm::Stage::kAllGather:
      return Activity::Stage::kAllGather;
    case comm::Stage::kExchange:
      return Activity::Stage::kExchange;
    case comm::Stage::kBroadcast:
      return Activity::Stage::kBroadcast;
    case comm::Stage::kIdle:
      break;
  }
  return Activity::Stage::kIdle;
}

}  // namespace

void ActivityBoard::use(const comm::Communicator* communicator, std::int64_t generation) {
  const std::lock_guard guard(mutex_);
  communicator_ = communicator;
  generation_ = generation;
}

rendezvous::Activity ActivityBoard::look() const {
  Activity activity;
  activity.doing = told(pulse.doing());
  activity.step = pulse.step();
  activity.beats = static_cast<std::int64_t>(pulse.beats());
  if (const auto end = pulse.rests_until(); end != core::Pulse::Time()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    activity.may_rest_ms = std::clamp<std::int64_t>(left.count(), 0, rendezvous::kMostRestMs);
  }
  const std::lock_guard guard(mutex_);
  activity.generation = generation_;
  if (communicator_ == nullptr) return activity;
  const comm::Activity seen = communicator_->activity();
  activity.sequence = static_cast<std::int64_t>(seen.sequence);
  activity.stage = told(seen.stage);
  activity.sent = static_cast<std::int64_t>(seen.sent);
  activity.received = static_cast<std::int64_t>(seen.received);
  activity.waits_for_bytes_of = seen.waits_for_bytes_of;
  activity.waits_for_room_at = seen.waits_for_room_at;
  return activity;
}

}  // namespace lockstep::trainer
