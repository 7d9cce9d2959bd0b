#include "operator/rendezvous/member_proposal.h"

#include <algorithm>
#include <utility>

namespace lockstep::rendezvous {

void MemberProposal::use(std::int64_t generation) {
  used_ = std::max(used_, generation);
}

MemberProposal::Verdict MemberProposal::judge(const GenerationId& id) const {
  if (id < promised_ || id.generation <= used_) return Verdict::kStale;
  if (id != promised_) return Verdict::kNew;
  return under_way_ ? Verdict::kKnown : Verdict::kStale;
}

void MemberProposal::accept(const Propose& propose) {
  promised_ = propose.id;
  under_way_.emplace();
  under_way_->propose = propose;
}

bool MemberProposal::drop() {
  return std::exchange(under_way_, std::nullopt).has_value();
}

void MemberProposal::say(Ready ready, bool existing) {
  under_way_->ready = std::move(ready);
  under_way_->of_existing = under_way_->of_existing || existing;
}

void MemberProposal::keep(MonotonicTime until) {
  under_way_->keeping = true;
  under_way_->hold_until = until;
}

void MemberProposal::stop_keeping() {
  under_way_->keeping = false;
  under_way_->prepared.reset();
  under_way_->ready.reset();
}

MonotonicTime MemberProposal::hold_until() const {
  return keeping() && !under_way_->ready ? under_way_->hold_until : MonotonicTime::max();
}

bool MemberProposal::hold(int rank, const Holding& holding) {
  if (!keeping() || under_way_->ready || GenerationId{holding.term, holding.generation} != promised_) return false;
  under_way_->held[rank] = holding.version;
  return true;
}

const StateVersion* MemberProposal::holding_of(int rank) const {
  if (!under_way_) return nullptr;
  const auto at = under_way_->held.find(rank);
  return at == under_way_->held.end() ? nullptr : &at->second;
}

}  // namespace lockstep::rendezvous
