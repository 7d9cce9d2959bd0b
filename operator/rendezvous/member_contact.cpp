#include "operator/rendezvous/member_contact.h"

#include <chrono>
#include <variant>

namespace lockstep::rendezvous {

void MemberContact::connect() {
  connected_ = true;
  welcomed_ = false;
}

void MemberContact::disconnect(MonotonicTime now) {
  if (welcomed_) alone_since_ = now;
  connected_ = welcomed_ = false;
}

bool MemberContact::hears(const CoordinatorToAgent& message) const {
  const bool first = std::holds_alternative<Welcome>(message) || std::holds_alternative<Refused>(message);
  return connected_ && (welcomed_ || first);
}

bool MemberContact::welcome(const Welcome& welcome) {
  if (welcome.term < term_) return false;
  term_ = welcome.term;
  heartbeat_every_ = std::chrono::milliseconds(welcome.heartbeat_ms);
  welcomed_ = true;
  return true;
}

std::int64_t MemberContact::say_heartbeat(MonotonicTime now) {
  heartbeat_at_ = now + heartbeat_every_;
  return ++sequence_;
}

MonotonicTime MemberContact::next_heartbeat() const {
  return welcomed_ ? heartbeat_at_ : MonotonicTime::max();
}

MonotonicTime MemberContact::orphaned_at(Duration after) const {
  return welcomed_ ? MonotonicTime::max() : alone_since_ + after;
}

}  // namespace lockstep::rendezvous
