#include "operator/rendezvous/member_departure.h"

#include <algorithm>
#include <chrono>

namespace lockstep::rendezvous {
namespace {

constexpr Duration kUnexpectedFor = std::chrono::seconds(3);  // within which a new leader knows the jobs that there are

}  // namespace

void MemberDeparture::decide(int code) {
  if (!code_ || *code_ == 0) code_ = code;
}

void MemberDeparture::be_unexpected(MonotonicTime now) {
  leave_by_ = std::min(leave_by_, now + kUnexpectedFor);
}

void MemberDeparture::begin(MonotonicTime now, Duration listening, Duration finding) {
  leave_at_ = now + listening;
  leave_by_ = now + finding;
}

std::optional<int> MemberDeparture::leave(const Telling& telling, MonotonicTime now) {
  if (!code_ || left_) return std::nullopt;
  const bool told = telling.welcomed ? telling.acknowledged : !telling.checkpoint_unsaid || unwanted_;
  if (!told && now < latest(telling.welcomed)) return std::nullopt;
  left_ = true;
  return code_;
}

MonotonicTime MemberDeparture::latest(bool welcomed) const {
  if (!code_ || left_) return MonotonicTime::max();
  return welcomed ? leave_at_ : leave_by_;
}

}  // namespace lockstep::rendezvous
