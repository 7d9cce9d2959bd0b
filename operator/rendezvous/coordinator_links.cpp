// Ranks that lost one another while all of them are there: the same set forms again, unless the same link fails again.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "operator/rendezvous/coordinator_state.h"
#include "operator/rendezvous/mutation.h"

namespace lockstep::rendezvous {

// Processes saw one another go away, and all of them are there: suspicion is not death, so the same set forms again.
void CoordinatorState::break_connection(Now now) {
  if (contacts_.somebody_leaves(*gang_)) return end_gang();  // whom the next generation does without
  const auto& [rank, report] = *gang_->broken.begin();
  Failure failure;
  failure.cause = api::Cause::kConnectionBroken;
  failure.rank = gang_->slot_of(report.suspect_rank) >= 0 ? report.suspect_rank : rank;
  failure.slot = gang_->slot_of(failure.rank);
  failure.message = fmt::format("rank {}: {}", rank, report.message);
  failure.time = now.wall;
  failure.detect_ms = 0;
  break_links(failure, link_reports());
}

// `failure` is what it is where this is the first time; where a link has failed again, one of its ends is to go.
void CoordinatorState::break_links(Failure failure, const std::vector<EdgeWatch::Report>& reports) {
  // Of one that was taken over nobody knows whether it has.
  bool stepped = gang_->resumed || last_advance_ > gang_->go_at;
  for (const auto& [rank, report] : gang_->broken) stepped = stepped || report.stepped;
  const std::set<Place> gang(gang_->places().begin(), gang_->places().end());
  const auto eviction = edges_.failed(reports, stepped, gang);
  if (eviction && kMutation != Mutation::kKeepBadLinks) {
    const int slot = eviction->member.slot;
    failure.message = fmt::format(
        "{} and {} both reach the coordinator, and for the second time not each other; slot {} gets another pod. {}",
        contacts_.slot_in_words(slot), contacts_.slot_in_words(eviction->other.slot), slot, failure.message);
    failure.cause = api::Cause::kPartitioned;
    failure.slot = slot;
    failure.rank = gang_->first_rank(slot);
    failure.exit_code.reset();
    failure.signal = 0;
    evicted_[slot] = eviction->member.incarnation;
  }
  break_gang(std::move(failure));
}

// Who says that a link failed, or only that it could not go on.
std::vector<EdgeWatch::Report> CoordinatorState::link_reports() const {
  std::vector<EdgeWatch::Report> reports;
  const auto add = [&](int rank, int suspect) {
    const bool named = gang_->slot_of(suspect) >= 0;
    reports.push_back({place_of(rank), named ? std::optional(place_of(suspect)) : std::nullopt});
  };
  for (const auto& [rank, report] : gang_->broken) add(rank, report.suspect_rank);
  for (const auto& [rank, exit] : gang_->exits) {
    if (exit.report && exit.report->kind == FailureReport::Class::kCommunication) add(rank, exit.report->suspect_rank);
  }
  return reports;
}

Place CoordinatorState::place_of(int rank) const {
  return gang_->places()[static_cast<std::size_t>(rank / gang_->procs())];
}

// Rule 10: whoever cannot reach the others would have them end a step for nothing, and then wait for its links.
bool CoordinatorState::reaches_gang(Member& member, Now now) {
  constexpr int kMostDoublings = 6;
  if (!gang_->go) return true;  // of a generation that was taken over the addresses are not known
  const std::string problem = member.told.reach ? member.told.reach->problem : "";
  const int failures = member.told.reach ? member.told.reach->failures : 0;
  const Duration back_off = std::chrono::seconds(1) * (1 << std::min(failures, kMostDoublings));
  const bool due = !member.told.reach || (failures > 0 ? now.time - member.told.reach->asked_at >= back_off
                                                       : member.told.reach->generation != gang_->generation);
  if (due) {
    member.told.reach = Reach{gang_->generation, now.time, false, problem, failures};
    send(member.session, Echo{gang_->generation, gang_->go->peers});
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
  return member.told.reach && !member.told.reach->problem.empty() && !in_gang(member);
}

bool CoordinatorState::evicted(const Member& member) const {
  const auto at = evicted_.find(member.expected.slot);
  return at != evicted_.end() && at->second == member.expected.incarnation;
}

}  // namespace lockstep::rendezvous
