// Who is in a generation, whether the plan still expects them, and how far each of them is.
#include <algorithm>

#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/failure_choice.h"

namespace lockstep::rendezvous {

bool CoordinatorState::in_gang(const Member& member) const {
  return gang_ && gang_->has(member.expected.slot, member.expected.incarnation);
}

bool CoordinatorState::Gang::note_up(int slot) {
  up.resize(size());
  if (up[index_of(slot)]) return false;
  ++ups;
  return up[index_of(slot)] = true;
}

bool CoordinatorState::Gang::note_exit(const Exit& exit) {
  const bool fresh = exits.emplace(exit.rank, exit).second;
  if (fresh && succeeded(exit)) ++successes;
  return fresh;
}

bool CoordinatorState::slot_exited(int slot) const {
  if (gang_->exits.empty()) return false;
  const int first = gang_->first_rank(slot);
  for (int i = 0; i < gang_->procs(); ++i) {
    if (gang_->exits.count(first + i) == 0) return false;
  }
  return true;
}

bool CoordinatorState::slot_succeeded(int slot) const {
  if (gang_->successes < gang_->procs()) return false;
  const int first = gang_->first_rank(slot);
  for (int i = 0; i < gang_->procs(); ++i) {
    const auto at = gang_->exits.find(first + i);
    if (at == gang_->exits.end() || !succeeded(at->second)) return false;
  }
  return true;
}

}  // namespace lockstep::rendezvous
