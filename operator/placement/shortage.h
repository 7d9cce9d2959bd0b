// Why a gang has no nodes, and what would change that: for `lockstep explain` and `lockstep plan`. Pure.
//
// A verdict is about this moment and one gang. It looks at no queue, and at no domain that is kept free for a gang that
// waits (hold.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/placement/census.h"
#include "operator/placement/cluster_view.h"
#include "operator/placement/endings.h"
#include "operator/placement/place.h"

namespace lockstep::placement {

// Why a node gets none of the pods, whatever it has free. A node counts for the first reason alone.
enum class Bar {
  kOutOfService,
  kNotReady,
  kSick,  // `what`: the sign, "condition:XIDErrors=True"
  kCordoned,
  kTaint,     // `what`: "key=value:effect"
  kSelector,  // `what`: the label that it lacks, or "node affinity"
  kLabel,     // `what`: the outermost label of the required level, or above it, that it lacks
  kClosed,    // Search::closed
  kShared,    // a survivor is there, with exclusive
  kHostPort,  // a pod there may have the same port
};
inline constexpr const char* kNodeAffinity = "node affinity";
struct BarredNodes {
  Bar bar = Bar::kNotReady;
  std::string what{};
  int nodes = 0;

  bool operator==(const BarredNodes&) const = default;
};

// A resource of which nodes that are not barred have less free than one pod asks for.
struct Shortage {
  std::string resource;
  std::int64_t asked = 0;  // by one pod
  std::int64_t most = 0;   // that is free on one of these nodes
  int nodes = 0;           // that have too little free
  int never = 0;           // of those, the ones that have too little even when empty

  bool operator==(const Shortage&) const = default;
};

struct Verdict {
  enum class Outcome {
    kFits,
    kNoRoom,          // a domain would be large enough, if fewer pods were in it
    kTooLarge,        // no domain of the required level is large enough, even when empty
    kNoNode,          // no node can hold one pod, even when empty
    kSurvivorsApart,  // the pods that stay are not in one domain of the required level
    kInvalid,         // the search contradicts itself: `sentence`
    kUnknown,         // what is free is not known: `sentence`
  };
  Outcome outcome = Outcome::kUnknown;
  std::string sentence;                    // one, for people
  int pods = 0;                            // that were asked for
  std::optional<int> required{};           //
  std::optional<Assignment> assignment{};  // kFits: where
  bool spread = false;                     // kFits: over as many nodes as there are
  // The rest is empty where it fits, or is not known.
  std::vector<Hole> largest{};              // of each level, outermost first: what is free now
  std::vector<Hole> possible{};             // the same, if only the survivors were there
  int nodes = 0, open = 0;                  // of the cluster; of those, the ones with room for one pod at least
  std::vector<BarredNodes> barred{};        // in the order of the reasons
  std::vector<Shortage> shortages{};        // the one of most nodes first
  int fit_now = 0;                          // pods that one domain of the required level takes now
  std::optional<int> spans_if_preferred{};  // kNoRoom, kTooLarge: the level that they would span without `required`
  bool fits_shared = false;                 // it would fit without `exclusive`
  int terminating = 0;                      // it fits once so many pods that are terminating are gone
  // kNoRoom: jobs whose end would make room. None: it takes more than the end of jobs.
  std::optional<Endings> endings{};
};

// Judges the search; `self` is the job that asks, zero where it does not exist yet. `jobs` are those that may be named.
Verdict explain_refusal(Cluster& cluster, const Search& search, const Uid& self, const KnownJobs& jobs);

// What the verdict says in one sentence, without a period.
std::string sentence_of(const Tree& tree, const Verdict& verdict);

// What would help, a sentence each: later, without `required` or `exclusive`, or if other jobs ended.
std::vector<std::string> advice(const Tree& tree, const Verdict& verdict);

// What keeps pods off nodes: "of 4 nodes: insufficient cpu on 3, cordoned on 1", at most four reasons. "" without any.
std::string obstacles_of(const Verdict& verdict);

// Why they are barred, for a table: "cordoned", "taint a=b:NoSchedule".
std::string reason_of(const BarredNodes& barred);

}  // namespace lockstep::placement
