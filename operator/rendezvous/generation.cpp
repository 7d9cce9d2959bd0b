#include "operator/rendezvous/generation.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {

void Generation::start(Gang gang, MonotonicTime now) {
  in_force_ = InForce{gang, gang.kind, true};
  progress_place_ = gang.size();
  last_advance_ = now;
  gang_ = std::move(gang);
}

void Generation::adopt(Gang gang) {
  in_force_ = InForce{gang, gang.kind, false};
  gang_ = std::move(gang);
}

bool Generation::note_in_force(const Member& member) {
  if (!in_force_ || in_force_->known || !gang_ || !gang_->resumed) return false;
  in_force_->known = has(member) && member.generation == gang_->generation;
  return in_force_->known;
}

// Each member of the generation in force has promised to be done with it, or its pod is gone. Every step of our trainer
// needs every member of its generation. So the promise of one ends it for those that are not asked, where it is known
// which generation that is.
bool Generation::ends_with(const Contacts& contacts, const std::function<bool(int slot)>& promises) const {
  if (!in_force_) return true;
  const auto& before = in_force_->places();
  const bool by_one =
      (in_force_->kind == Kind::kLockstep && in_force_->known &&
       std::any_of(before.begin(), before.end(),
                   [&](const Place& old) { return contacts.still_expects(old) && promises(old.slot); })) ||
      kMutation == Mutation::kDisjointSuccessor;
  return by_one || std::all_of(before.begin(), before.end(),
                               [&](const Place& old) { return !contacts.still_expects(old) || promises(old.slot); });
}

void Generation::keep_early(const Contacts& contacts) {
  std::erase_if(early_, [&](const auto& entry) { return contacts.find(entry.first) == nullptr; });
}

// A step is committed by all or by nobody: that one rank has done it shows that none is lost.
bool Generation::note_advance(Member& member, std::int64_t step, MonotonicTime now) {
  if (step <= member.step) return false;
  const bool first = last_advance_ <= gang_->up_at;
  member.step = step;
  last_advance_ = now;
  return first;
}

bool Generation::note_progress(int slot, const Progress& progress) {
  const std::size_t place = gang_->index_of(slot);
  if (place > progress_place_ || progress == progress_) return false;
  progress_place_ = place;
  progress_ = progress;
  return true;
}

void Generation::note_final(const Progress& progress) {
  if (progress.step > progress_.step) progress_ = progress;
}

bool Generation::note_first_step(MonotonicTime at) {
  if (!recovered() || times_.first_step_ms >= 0) return false;
  times_.first_step_ms = std::chrono::duration_cast<std::chrono::milliseconds>(at - gang_->up_at).count();
  return true;
}

std::optional<EdgeWatch::Eviction> Generation::fail_links(const std::vector<EdgeWatch::Report>& reports) {
  // Whether a generation that was taken over has committed a step is unknown.
  bool stepped = gang_->resumed || last_advance_ > gang_->go_at;
  for (const auto& [rank, report] : gang_->end.broken) stepped = stepped || report.stepped;
  return edges_.failed(reports, stepped, std::set<Place>(gang_->places().begin(), gang_->places().end()));
}

bool Generation::evicted(const Member& member) const {
  const auto at = evicted_.find(member.expected.slot);
  return at != evicted_.end() && at->second == member.expected.incarnation;
}

}  // namespace lockstep::rendezvous
