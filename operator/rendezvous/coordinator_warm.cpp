// Processes that start before they have a rank. Those of newcomers start while a generation runs without them, those of
// all members before the first generation.
#include <algorithm>

#include "operator/rendezvous/coordinator_state.h"

namespace lockstep::rendezvous {

// What the processes of `member` have to know before they have a rank.
void CoordinatorState::warm(Member& member, bool first, Now now) {
  member.told.warmed_at = now.time;
  member.start = Member::Start::kAwaited;
  Go go = go_for(Roster({}, plan_->procs_per_node));
  go.id = {keeper_.term(), 0};
  // As if every slot took part, in order. None of it counts.
  go.world_size = plan_->slots * plan_->procs_per_node;
  go.group_world_size = plan_->slots;
  go.group_rank = std::min(member.expected.slot, plan_->slots - 1);  // a spare has a slot beyond
  go.first_rank = go.group_rank * plan_->procs_per_node;
  if (first) go.master_port = plan_->port;
  send(member.session, Warm{go, first});
}

// Processes that load before GO say what they are before GO, and the generation has its links the sooner. Where
// somebody holds a state, or was in a generation, nobody waits: new processes start with GO, beside those that stay.
bool CoordinatorState::awaits_warm(const std::vector<int>& slots, Now now) {
  if (plan_->kind != Kind::kLockstep || modes_.proposal() != nullptr) return false;
  bool waits = false;
  for (const int slot : slots) {
    Member& member = contacts_.at(slot);
    if (member.generation > 0 || generation_.has(member) || member.start == Member::Start::kFailed) return false;
    waits = awaited(member, now) || waits;
  }
  for (const int slot : slots) {
    Member& member = contacts_.at(slot);
    if (waits && member.phase == MemberPhase::kIdle && !member.told.warmed_at) warm(member, true, now);
  }
  return waits;
}

// Its processes may yet be warm. After the time that processes may take to start, PROPOSE goes out in any case, and
// they start again in the generation.
bool CoordinatorState::awaited(Member& member, Now now) const {
  if (member.start != Member::Start::kAwaited) return false;
  if (member.phase == MemberPhase::kIdle) {  // an agent that cannot prepare them says so with READY
    return !member.told.warmed_at || now.time - *member.told.warmed_at < timing_.warm_again;
  }
  if (member.phase != MemberPhase::kRunning) return false;
  if (!member.told.warmed_at) member.told.warmed_at = now.time;  // an earlier coordinator, or connection, has told it
  const std::chrono::seconds within(plan_->deadlines.start_timeout_seconds);
  return within == std::chrono::seconds(0) || now.time - *member.told.warmed_at < within;
}

}  // namespace lockstep::rendezvous
