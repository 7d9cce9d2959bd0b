#include "operator/rendezvous/hang_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

namespace lockstep::rendezvous {
namespace {

using Doing = Activity::Doing;
using Stage = Activity::Stage;

constexpr std::int64_t kSilentMs = 3000;  // a process that runs says what it does every 250 ms, on a thread of its own

bool stopped(const WatchedRank& rank) {
  return rank.activity.state == 'T' || rank.activity.state == 't';
}

bool silent(const WatchedRank& rank) {
  return rank.activity.said && rank.activity.age_ms >= kSilentMs;
}

// "rank 3", "ranks 0, 1, 4 and 14 more"
std::string ranks_in_words(const std::set<int>& ranks) {
  constexpr std::size_t kNamed = 8;
  std::vector<int> named(ranks.begin(), ranks.end());
  named.resize(std::min(kNamed, named.size()));
  std::string words = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(named, ", "));
  if (ranks.size() > kNamed) words += fmt::format(" and {} more", ranks.size() - kNamed);
  return words;
}

std::string state_in_words(const WatchedRank& rank) {
  switch (rank.activity.state) {
    case 'T':
      return "it is stopped (state T)";
    case 't':
      return "it is stopped by a debugger (state t)";
    case 'R':
      return "it runs (state R)";
    case 'S':
      return "it sleeps (state S)";
    case 'D':
      return "it waits for a disk or a network file system (state D)";
    default:
      return fmt::format("its process is in state {}", rank.activity.state);
  }
}

std::string doing_in_words(const Activity& said) {
  const std::int64_t next = said.step + 1;
  switch (said.doing) {
    case Doing::kStarting:
      return said.may_rest_ms >= 0 ? "reading a checkpoint" : "before its first step";
    case Doing::kLoading:
      return fmt::format("loading data for step {}", next);
    case Doing::kForward:
      return fmt::format("in the forward pass of step {}", next);
    case Doing::kBackward:
      return fmt::format("in the backward pass of step {}", next);
    case Doing::kWaiting:
      return fmt::format("waiting for a collective of step {}", next);
    case Doing::kCommitting:
      return fmt::format("committing step {}", next);
    case Doing::kSaving:
      return fmt::format("writing a checkpoint after step {}", said.step);
    case Doing::kRegrouping:
      return "between two generations";
    case Doing::kOther:
      break;
  }
  return fmt::format("after step {}", said.step);
}

std::string place_in_words(const Activity& said) {
  if (said.stage == Stage::kIdle) {
    return doing_in_words(said) +
           (said.sequence > 0 ? fmt::format(", with no collective under way since number {}", said.sequence) : "");
  }
  return fmt::format("inside the {} of collective {}, {}", name_of(said.stage), said.sequence, doing_in_words(said));
}

std::string sentence_of(const WatchedRank& rank, const std::set<int>& waiters) {
  std::string text = fmt::format("rank {} (slot {}{}) has not moved for {:.1f} s: {}", rank.rank, rank.slot,
                                 rank.node.empty() ? "" : ", node " + rank.node,
                                 std::chrono::duration<double>(rank.unmoved).count(), state_in_words(rank));
  if (rank.activity.said) {
    // What it says is 250 ms old at most, and then it may have gone on to where it was stopped.
    text += (stopped(rank) || silent(rank) ? ", last seen " : " ") + place_in_words(*rank.activity.said);
  }
  if (!stopped(rank) && silent(rank)) {
    text += fmt::format(" and has said nothing for {:.1f} s", static_cast<double>(rank.activity.age_ms) / 1000);
  }
  if (!waiters.empty()) {
    text += fmt::format("; {} {} for it", ranks_in_words(waiters), waiters.size() == 1 ? "waits" : "wait");
  }
  return text;
}

// Whom each rank waits for, by what it says itself.
class Waiting {
 public:
  explicit Waiting(const std::vector<WatchedRank>& ranks) {
    std::set<int> there;
    for (const WatchedRank& rank : ranks) there.insert(rank.rank);
    for (const WatchedRank& rank : ranks) {
      auto& targets = for_[rank.rank];
      if (!rank.activity.said || stopped(rank) || silent(rank)) continue;
      for (const int target : {rank.activity.said->waits_for_bytes_of, rank.activity.said->waits_for_room_at}) {
        if (target != rank.rank && there.count(target) != 0) targets.insert(target);
      }
    }
  }

  bool for_nobody(int rank) const { return for_.at(rank).empty(); }

  // The ranks that wait, directly or through others, for one of these.
  std::set<int> waiters_of(const std::set<int>& targets) const {
    std::set<int> waiters;
    for (bool grows = true; grows;) {
      grows = false;
      for (const auto& [rank, its] : for_) {
        if (targets.count(rank) != 0 || waiters.count(rank) != 0) continue;
        const bool waits = std::any_of(its.begin(), its.end(), [&](int target) {
          return targets.count(target) != 0 || waiters.count(target) != 0;
        });
        if (waits) grows = waiters.insert(rank).second;
      }
    }
    return waiters;
  }

 private:
  std::map<int, std::set<int>> for_;  // by rank
};

HangChoice blame(const std::vector<WatchedRank>& ranks, const Waiting& waiting,
                 const std::function<bool(const WatchedRank&)>& guilty) {
  std::set<int> names;
  for (const WatchedRank& rank : ranks) {
    if (guilty(rank)) names.insert(rank.rank);
  }
  const std::set<int> waiters = waiting.waiters_of(names);
  HangChoice choice;
  for (const WatchedRank& rank : ranks) {
    if (names.count(rank.rank) == 0) continue;
    choice.culprits.push_back({rank.rank, rank.slot, sentence_of(rank, waiters)});
    if (names.size() == 1) continue;
    std::set<int> others = names;
    others.erase(rank.rank);
    choice.culprits.back().sentence += fmt::format("; {} too", ranks_in_words(others));
  }
  return choice;
}

// The link on which the most bytes were sent that have not arrived.
std::optional<HangChoice::Link> stuck_link(const std::vector<WatchedRank>& ranks) {
  std::optional<HangChoice::Link> found;
  std::int64_t most = 0;
  for (const WatchedRank& to : ranks) {
    for (const WatchedRank& from : ranks) {
      if (!to.activity.said || !from.activity.said || to.activity.said->waits_for_bytes_of != from.rank) continue;
      const std::int64_t missing = from.activity.said->sent - to.activity.said->received;
      if (missing <= most) continue;
      most = missing;
      found = {
          from.rank, to.rank,
          fmt::format("{} bytes that rank {} (slot {}) sent in collective {} have not reached rank {} (slot {}) for "
                      "{:.1f} s, and all ranks wait",
                      missing, from.rank, from.slot, from.activity.said->sequence, to.rank, to.slot,
                      std::chrono::duration<double>(to.unmoved).count())};
    }
  }
  return found;
}

}  // namespace

HangChoice choose_hang(const std::vector<WatchedRank>& ranks) {
  const Waiting waiting(ranks);
  const auto any = [&](const auto& test) { return std::any_of(ranks.begin(), ranks.end(), test); };
  if (any(stopped)) return blame(ranks, waiting, stopped);
  if (any(silent)) return blame(ranks, waiting, silent);
  if (any([](const WatchedRank& rank) { return !rank.activity.said; })) {
    const auto on_disk = [](const WatchedRank& rank) { return rank.activity.state == 'D'; };
    if (any(on_disk)) return blame(ranks, waiting, on_disk);
    return blame(ranks, waiting, [&](const WatchedRank& rank) { return rank.rank == ranks.front().rank; });
  }
  const auto end = [&](const WatchedRank& rank) { return waiting.for_nobody(rank.rank); };
  // Where nobody waits for an end, it is as stuck as any other.
  const auto awaited = [&](const WatchedRank& rank) { return end(rank) && !waiting.waiters_of({rank.rank}).empty(); };
  if (any(awaited)) return blame(ranks, waiting, awaited);
  if (any(end)) return blame(ranks, waiting, end);
  HangChoice choice;
  choice.link = stuck_link(ranks);
  if (choice.link) return choice;
  const auto behind = [](const WatchedRank& a, const WatchedRank& b) {
    const Activity &first = *a.activity.said, &second = *b.activity.said;
    return std::tuple(first.sequence, first.received, a.rank) < std::tuple(second.sequence, second.received, b.rank);
  };
  const int last = std::min_element(ranks.begin(), ranks.end(), behind)->rank;
  return blame(ranks, waiting, [&](const WatchedRank& rank) { return rank.rank == last; });
}

}  // namespace lockstep::rendezvous
