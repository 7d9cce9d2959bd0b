// What the placer keeps of one gang between two decisions. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "operator/base/clock.h"
#include "operator/placement/answer.h"
#include "operator/placement/gang.h"
#include "operator/placement/hold.h"

namespace lockstep::placement {

// A slot's node, and the pod for which it is reserved.
struct Place {
  std::string pod;
  std::string node;
  bool reserved = false;  // it was; false while the node is unknown
};

struct Pause {
  Duration length{};  // of the last; zero: none since the gang was whole
  MonotonicTime until{};
};

// Pods and nodes that made trouble, and how long the gang rests for it.
struct Trouble {
  std::set<std::string> leaving;                       // pods that are to be deleted: their node refused them
  std::map<std::string, MonotonicTime> unschedulable;  // pods, since when
  std::map<std::string, MonotonicTime> avoided;        // nodes, until when
  Pause pause, spare_pause;                            // of all its pods; of its spares alone
  MonotonicTime turn_until{};                          // it keeps its turn until then though it cannot be placed
  bool releasing = false;                              // until its pods are gone
};

// The last search that found no room.
struct Trial {
  std::uint64_t room = 0;               // the placer's room then; 0: search again
  bool strict = false;                  // it was for the preferred level alone
  bool outside = false;                 // it was outside a domain that is kept free
  std::optional<HeldDomain> candidate;  // to be kept free for it
  Wait wait;
};

// The parts of the queue, in order.
enum class Line { kRepair, kStart, kGrowth, kSpare, kContent };

// How many pods a gang wants next.
struct Want {
  Line line = Line::kContent;
  int least = 0, most = 0;
  bool blocked = false;  // until pods are gone

  bool starts() const { return line == Line::kRepair || line == Line::kStart; }
};

// The queue is in order of these.
struct Turn {
  Line line = Line::kContent;
  std::int64_t after = 0;  // the negated priority
  WallTime since{};
  std::string key;

  auto operator<=>(const Turn&) const = default;
};

struct Entry {
  Gang gang;
  std::map<int, Place> places;      // by slot
  std::map<int, Place> successors;  // by slot: what is reserved for Gang::successors
  Trouble trouble;
  Trial trial;
  std::uint64_t successor_trial = 0;            // the placer's room when they were last searched for; 0: search again
  std::optional<MonotonicTime> held_since;      // pods without a gate, while it is not whole
  std::optional<MonotonicTime> reserved_since;  // places without any such pod
  MonotonicTime preferred_until{};              // of the constraint
  int reached = 0;                              // the most pods that were bound at once while it ran
  std::optional<int> required;                  // of the constraint, or the level that its held pods still allow
  bool approximate = false;                     // a search for its places was
  Want want;
  std::optional<Turn> turn;          // in the queue; empty: it wants nothing
  std::optional<MonotonicTime> due;  // it is reviewed then
  Wait wait;
  Whereabouts whereabouts;
  std::pair<std::uint64_t, int> located{};  // the tree's version, and Gang::pods, for which answer->where holds
  std::optional<Answer> answer;
  bool refused = false;  // a pod of it was not opened where `answer` says, since the last step
};

// Whether a pod stands on a node, or can go to one alone.
bool is_held(const Seat& seat);
bool holds_any(const Gang& gang);
bool has_pods(const Gang& gang);
int count_bound(const Gang& gang);
// What the gang wants next, by its pods and places.
Want want_of(const Entry& entry);

}  // namespace lockstep::placement
