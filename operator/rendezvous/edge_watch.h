// Two members that both speak with the coordinator but not with each other: which of them does the gang go on without?
// Pure; the coordinator's state machine tells it of each generation that ended because links failed.
//
// One failed link says nothing: the ranks reconnect. A link between the same two pods that fails again, before a step
// was made, is no accident. Packets between them are lost, and no generation that has both will ever make a step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "operator/rendezvous/roster.h"

namespace lockstep::rendezvous {

class EdgeWatch {
 public:
  // What a rank of `from` said when its generation ended. The link with a rank of `to` failed, or, without `to`, the
  // rank could not go on.
  struct Report {
    Place from;
    std::optional<Place> to;
  };
  struct Eviction {
    Place member;  // to do without
    Place other;   // whom it does not reach
  };

  // A generation of `gang` has ended because of `reports`. `stepped`: it made a step, so all of its links have worked.
  // The member to do without, where a link failed in two generations since the last step: the one with most such links;
  // of equals who said nothing of it itself, because a process that is there sees its own link fail; then the newest
  // incarnation, then the highest slot. One at a time: what the others can reach without it is not known yet.
  std::optional<Eviction> failed(const std::vector<Report>& reports, bool stepped, const std::set<Place>& gang);

  using Edge = std::pair<Place, Place>;  // the smaller first
  // In how many generations since the last step each has failed.
  const std::map<Edge, int>& failures() const { return failures_; }

 private:
  std::map<Edge, int> failures_;
};

}  // namespace lockstep::rendezvous
