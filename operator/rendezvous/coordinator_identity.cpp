// Ranks of one generation that are not of one kind. They are found before GO where their processes are warm. Where
// processes start with GO, they are found as soon as they have said what they are.
#include <fmt/format.h>

#include <utility>

#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/limits.h"

namespace lockstep::rendezvous {
namespace {

constexpr std::size_t kMaxValue = 256;  // bytes of a value that are shown

}  // namespace

std::optional<IdentityDifference> CoordinatorState::difference_in(const Roster& roster) const {
  if (plan_->kind != Kind::kLockstep) return std::nullopt;
  std::vector<MemberIdentity> members;
  for (const Place& place : roster.places()) {
    const Member* member = contacts_.find(place.slot);
    if (member == nullptr || member->identities.empty()) continue;
    members.push_back({place.slot, &member->identities});
  }
  return identity_difference(members);
}

std::optional<IdentityDifference> CoordinatorState::differs_from_gang(const Member& member) const {
  if (!generation_.exists() || generation_.has(member) || member.identities.empty()) return std::nullopt;
  for (const auto& [slot, other] : contacts_.members()) {  // all of the gang are of one kind
    if (!generation_.has(other) || other.identities.empty()) continue;
    return identity_difference({{slot, &other.identities}, {member.expected.slot, &member.identities}});
  }
  return std::nullopt;
}

std::string CoordinatorState::in_words(const IdentityDifference& difference) const {
  const auto pod = [this](int slot) { return contacts_.pod_in_words(slot); };
  const std::string advice = identity_advice(difference.field);
  const std::string value = clipped(difference.value, kMaxValue);
  const std::string other = clipped(difference.other_value, kMaxValue);
  const std::string who =
      difference.slot == difference.other_slot
          ? fmt::format("processes of {} have {} and {}", pod(difference.slot), value, other)
          : fmt::format("{} has {}, {} has {}", pod(difference.slot), value, pod(difference.other_slot), other);
  return fmt::format("the ranks of a generation must have the same {}: {}{}{}", difference.field, who,
                     advice.empty() ? "" : ". ", advice);
}

// A process that was started with GO says its line before its first collective. Where the line is late, as from an
// agent that has lost the coordinator, the generation may make steps before the difference is found.
void CoordinatorState::evaluate_identities(Now now) {
  if (!generation_.take_identities_changed()) return;
  const auto difference = difference_in(gang());
  if (!difference) return;
  Failure failure;
  failure.cause = api::Cause::kIdentityMismatch;
  failure.slot = difference->slot;
  failure.rank = gang().first_rank(difference->slot);
  failure.message = in_words(*difference);
  failure.time = now.wall;
  failure.detect_ms = 0;
  break_gang(std::move(failure));
}

}  // namespace lockstep::rendezvous
