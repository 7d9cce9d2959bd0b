// Which rank is to blame when none makes progress. Pure; the coordinator's state machine asks after the deadline.
//
// Each rank names the rank whose bytes it misses and the rank that takes none of its own, so waiting is a graph. A rank
// that waits for no other is the end of the chain. It computes or loads without progress, or it skipped a collective of
// the others. The last word of a stopped process is worth nothing, so a stopped rank is an end whatever it waited for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/activity.h"

namespace lockstep::rendezvous {

// A rank whose process is there, at a moment at which no rank of the generation has made progress for long.
struct WatchedRank {
  int rank = 0;
  int slot = 0;
  std::string node;  // "" where not known
  RankActivity activity;
  Duration unmoved{};  // how long nothing of it has changed
};

struct HangChoice {
  struct Culprit {
    int rank = 0;
    int slot = 0;
    std::string sentence;
  };
  // Whose processes are to be ended, in order of rank; empty when all ranks wait for one another.
  std::vector<Culprit> culprits;
  // No process is to end: bytes of the first rank do not reach the second, so the two have to reconnect.
  struct Link {
    int from = 0, to = 0;
    std::string sentence;
  };
  std::optional<Link> link;
};

// In this order: stopped processes (T, t); processes that say nothing, though they did; ranks for which others wait and
// that wait for nobody; where all wait in a circle, the link on which bytes are missing; the rank that is furthest
// behind. Where ranks say nothing at all, only the states of their processes tell. Stopped ones come first, then those
// that wait for a disk (D), else the first rank stands for all. `ranks` has at least one, in order of rank.
HangChoice choose_hang(const std::vector<WatchedRank>& ranks);

}  // namespace lockstep::rendezvous
