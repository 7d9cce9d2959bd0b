// Ranks that lost one another while all of them are there: the same set forms again, unless the same link fails again.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {

// Processes saw one another go away, and all of them are there: suspicion is not death, so the same set forms again.
void CoordinatorState::break_connection(Now now) {
  if (contacts_.somebody_leaves(gang())) return end_gang();  // whom the next generation does without
  const auto& [rank, report] = *gang().end.broken.begin();
  Failure failure;
  failure.cause = api::Cause::kConnectionBroken;
  failure.rank = gang().slot_of(report.suspect_rank) >= 0 ? report.suspect_rank : rank;
  failure.slot = gang().slot_of(failure.rank);
  failure.message = fmt::format("rank {}: {}", rank, report.message);
  failure.time = now.wall;
  failure.detect_ms = 0;
  break_links(failure, gang().link_reports());
}

// `failure` is what it is where this is the first time; where a link has failed again, one of its ends is to go.
void CoordinatorState::break_links(Failure failure, const std::vector<EdgeWatch::Report>& reports) {
  const auto eviction = generation_.fail_links(reports);
  if (eviction && kMutation != Mutation::kKeepBadLinks) {
    const int slot = eviction->member.slot;
    failure.message = fmt::format(
        "{} and {} both reach the coordinator, and for the second time not each other; slot {} gets another pod. {}",
        contacts_.slot_in_words(slot), contacts_.slot_in_words(eviction->other.slot), slot, failure.message);
    failure.cause = api::Cause::kPartitioned;
    failure.slot = slot;
    failure.rank = gang().first_rank(slot);
    failure.exit_code.reset();
    failure.signal = 0;
    generation_.evict(eviction->member);
  }
  break_gang(std::move(failure));
}

// Rule 10: for a member that does not reach the others they would end a step for nothing, and then wait for its links.
bool CoordinatorState::reaches_gang(Member& member, Now now) {
  constexpr int kMostDoublings = 6;
  if (!gang().go) return true;  // of a generation that was taken over the addresses are not known
  const std::string problem = member.told.reach ? member.told.reach->problem : "";
  const int failures = member.told.reach ? member.told.reach->failures : 0;
  const Duration back_off = std::chrono::seconds(1) * (1 << std::min(failures, kMostDoublings));
  const bool due = !member.told.reach || (failures > 0 ? now.time - member.told.reach->asked_at >= back_off
                                                       : member.told.reach->generation != gang().generation);
  if (due) {
    member.told.reach = Reach{gang().generation, now.time, false, problem, failures};
    send(member.session, Echo{gang().generation, gang().go->peers});
  }
  const Reach& reach = *member.told.reach;
  if (!reach.answered) return reach.failures == 0 && now.time - reach.asked_at > timing_.echo_within;
  return reach.problem.empty();
}

bool CoordinatorState::on(Member& member, const Echoed& echoed, Now) {
  if (!member.told.reach || member.told.reach->answered || echoed.generation != member.told.reach->generation) {
    ++ignored_;
    return false;
  }
  member.told.reach->answered = true;
  member.told.reach->problem = echoed.problem;
  member.told.reach->failures = echoed.problem.empty() ? 0 : member.told.reach->failures + 1;
  changed_ = true;
  return true;
}

bool CoordinatorState::unreaching(const Member& member) const {
  return member.told.reach && !member.told.reach->problem.empty() && !generation_.has(member);
}

}  // namespace lockstep::rendezvous
