// What CoordinatorState does about a generation that is up and makes no progress. hang_watch.h says when that is the
// case, and hang_choice.h which rank is to blame.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "operator/rendezvous/coordinator_state.h"

namespace lockstep::rendezvous {
namespace {

// For a checkpoint of a process that does not say how long it may take: such a trainer ends it after 120 s.
constexpr Duration kSavingPatience = std::chrono::seconds(150);

// For how long it may still wait for its storage, by what it says; zero: it does not say.
Duration rest_left(const RankActivity& rank) {
  if (!rank.said || rank.said->may_rest_ms < 0) return {};
  return std::chrono::milliseconds(std::max<std::int64_t>(0, rank.said->may_rest_ms - rank.age_ms));
}

// It has a reason to rest that is nobody's hang. Its disk is slow, or its own agent has not told it how to go on.
bool may_rest(const WatchedRank& rank) {
  if (!rank.activity.said || rank.activity.state == 'T' || rank.activity.state == 't') return false;
  const Activity& said = *rank.activity.said;
  if (said.doing == Activity::Doing::kRegrouping) return true;
  if (said.may_rest_ms >= 0) return rest_left(rank.activity) > Duration::zero();
  return said.doing == Activity::Doing::kSaving && rank.unmoved < kSavingPatience;
}

}  // namespace

void CoordinatorState::note_activities(Member& member, const Heartbeat& heartbeat, Now now) {
  if (mode() == Mode::kStarting) note_rest(member.expected.slot, heartbeat, now);
  if (!gang().watch) return;
  member.activity_at = now.time;
  if (heartbeat.progress) gang().watch->note_step(heartbeat.progress->step, now.time);
  if (heartbeat.ranks.size() != static_cast<std::size_t>(gang().procs())) return;
  const int first = gang().first_rank(member.expected.slot);
  for (int i = 0; i < gang().procs(); ++i) {
    gang().watch->note(first + i, heartbeat.ranks[static_cast<std::size_t>(i)], now.time);
  }
}

// A rank that reads a checkpoint is not up, and so no rank is.
void CoordinatorState::note_rest(int slot, const Heartbeat& heartbeat, Now now) {
  Duration rest{};
  for (const RankActivity& rank : heartbeat.ranks) {
    if (rank.said && rank.said->generation == gang().generation) rest = std::max(rest, rest_left(rank));
  }
  gang().rests_until[slot] = now.time + rest;
}

std::vector<WatchedRank> CoordinatorState::watched_ranks(Now now) const {
  std::vector<WatchedRank> ranks;
  const auto& seen = gang().watch->ranks();
  for (int rank = 0; rank < gang().ranks(); ++rank) {
    if (gang().end.exits.count(rank) != 0) continue;
    const int slot = gang().slot_of(rank);
    const Member& member = contacts_.at(slot);
    const auto at = static_cast<std::size_t>(rank);
    // evaluate_losses() deals with silent members. A member that has come back has yet to report its activity.
    const bool lately = member.session != 0 &&
                        now.time - member.activity_at <= timing_.lost_after + member.heartbeats - kHeartbeatEvery;
    if (!lately || at >= seen.size() || !seen[at]) return {};
    ranks.push_back({rank, slot, member.expected.node, seen[at]->activity, now.time - seen[at]->moved});
  }
  return ranks;
}

void CoordinatorState::evaluate_hang(Now now) {
  const GenerationDeadlines& deadlines = plan_->deadlines;
  if (deadlines.progress_seconds <= 0) return;
  if (!gang().watch) {
    const auto begun = gang().resumed ? std::nullopt : std::optional(gang().restored_step);
    gang().watch.emplace(begun, now.time);
    return;
  }
  HangWatch& watch = *gang().watch;
  // It made progress after all, or ended in order. What that means for the others is not known yet.
  if (gang().hang && (watch.moved() > gang().hang->since || gang().end.exits.count(gang().hang->failure.rank) != 0)) {
    gang().hang.reset();
    watch.restart(now.time);
  }
  if (gang().hang) {
    if (now.time - gang().hang->since > timing_.abort_within) break_gang(gang().hang->failure);
    return;
  }
  const Duration unmoved = now.time - watch.moved();
  const Duration least = std::chrono::seconds(deadlines.progress_seconds);
  if (unmoved < least) return;
  if (watch.stepped()
          ? unmoved < watch.patience(least)
          : deadlines.start_timeout_seconds <= 0 ||
                unmoved < std::max(least, Duration(std::chrono::seconds(deadlines.start_timeout_seconds)))) {
    return;
  }
  const std::vector<WatchedRank> ranks = watched_ranks(now);
  if (ranks.empty()) return;
  const bool tell = std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.activity.said; });
  if (!tell && !(deadlines.watch_reports && watch.timed())) return;
  const HangChoice choice = choose_hang(ranks);
  const bool rests = std::any_of(choice.culprits.begin(), choice.culprits.end(), [&](const auto& culprit) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const auto& rank) { return rank.rank == culprit.rank && may_rest(rank); });
  });
  if (!rests) end_hung(choice, now);
}

void CoordinatorState::end_hung(const HangChoice& choice, Now now) {
  Failure failure;
  failure.time = now.wall;
  failure.detect_ms = 0;
  if (choice.link) {  // nobody is stuck but what is between them: the same set forms again
    failure.cause = api::Cause::kConnectionBroken;
    failure.rank = choice.link->to;
    failure.slot = gang().slot_of(failure.rank);
    failure.message = choice.link->sentence;
    const Place from = gang().place_of(choice.link->from), to = gang().place_of(choice.link->to);
    return break_links(failure, {{to, from}, {from, to}});
  }
  for (const HangChoice::Culprit& culprit : choice.culprits) {
    send(contacts_.at(culprit.slot).session, Abort{gang().generation, culprit.rank, culprit.sentence});
  }
  const HangChoice::Culprit& first = choice.culprits.front();
  failure.cause = api::Cause::kHang;
  failure.rank = first.rank;
  failure.slot = first.slot;
  failure.message = fmt::format("{}; its agent has not ended it within {} s", first.sentence,
                                std::chrono::duration_cast<std::chrono::seconds>(timing_.abort_within).count());
  gang().hang = {std::move(failure), now.time};
}

}  // namespace lockstep::rendezvous
